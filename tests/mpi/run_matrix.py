#!/usr/bin/env python3
"""Conformance of unmodified MPI programs: every test that a host alone passes must pass with zerohop.

    tests/mpi/run_matrix.py [--cover pairwise|full] [--quick] [--zerohop on|off] [--host H] [--ranks R] [--program P]

A cell is host x ranks x ways x program. Ways: all; without CMA, and buffers shared at their second use; without the
shared heap. Ranks: 1 2 3 5, 8 for collectives; 4n2 / 4n1 for four ranks of which two / one make a node
(the setting node_ranks), 5n2, 16n4 and 16n2 alike; 4@2 and 6@3 for four / six ranks, by twos, on two / three machines
made of namespaces (dev/machines), to which the host's own launcher goes and which TCP connects; 4@2c deals the ranks
out in turn. Where no namespaces may be made, or a host cannot leave its machine, these are skipped and the reason is
said.

For each cell with zerohop the host alone, on as many machines, is run once as its baseline (kept in build/tests-mpi by
host version and test sources). A test that the baseline fails must be in known_host_failures.toml, and an entry of that
list that no longer fails is an error with --zerohop off, else a note. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines import launcher, namespaces  # noqa: E402
from machines.placement import Placement  # noqa: E402
from matrix import cover  # noqa: E402
from matrix.crash_program import crash_program  # noqa: E402
from matrix.known import KnownFailures  # noqa: E402
from matrix.launch import Zerohop, with_setting  # noqa: E402
from matrix.named_program import LEADER_RANKS, named_programs  # noqa: E402
from matrix.programs import WORK, Program, Setting, programs  # noqa: E402
from matrix.results import Results, Test  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

RANKS = ("2", "3", "1", "5", "8", "4n2", "4n1", "5n2", "16n4", "16n2", "4@2", "4@2c", "6@3")
CMA = ("cma", "nocma", "noheap")
MAX_FAILURES_SHOWN = 20
FULL_ORDER = ("2", "4n2", "4@2", "3", "5", "8", "1", "4n1", "5n2", "6@3", "4@2c", "16n4", "16n2")
FULL_ONLY = ("16n4", "16n2", "6@3")
NOCMA_RANKS = ("2", "4n2")
ABI_RANKS = ("1", "2", "4n2", "4@2")
# Many ranks for the shapes of collectives only; several nodes for what crosses them.
PROGRAMS_OF = {
    **dict.fromkeys(("8", "16n4", "16n2"), ("collectives", "collectives-leaders")),
    **dict.fromkeys(("5n2", "4@2", "4@2c", "6@3"), ("collectives", "collectives-leaders", "semantics")),
}
# Cases that are all zerohop's where ranks share nodes: they have no baseline, and no failure of the host excuses them.
# Where there are several nodes, what is started belongs to the host, which fails much of it, and so do some that block.
OWN_SUBJECTS = ("coll_move", "coll_reduce", "coll_in_place", "coll_layouts", "coll_lopsided")
OWN = (*(f"{subject}.*" for subject in OWN_SUBJECTS), "coll_order.*")
OWN_CALLS_BETWEEN_NODES = ("bcast", "reduce", "allreduce", "scan", "exscan", "gatherv", "allgather", "allgatherv")
OWN_BETWEEN_NODES = (*(f"{subject}.{call}_blocking" for subject in OWN_SUBJECTS for call in OWN_CALLS_BETWEEN_NODES),
                     "coll_order.*")  # fmt: skip
HOSTS_BETWEEN_NODES = ("gather_blocking", "scatter*_blocking", "alltoall[vw]_blocking")
HARD_ON_HOSTS = ("coll_in_place", "coll_layouts", "coll_lopsided")
STARTED_BETWEEN_NODES = tuple(f"{subject}.*_[np]*" for subject in HARD_ON_HOSTS)
LEFT_OUT_BETWEEN_NODES = (
    *STARTED_BETWEEN_NODES,
    *(f"{subject}.{calls}" for subject in HARD_ON_HOSTS
      for calls in ("alltoall_blocking", "reduce_scatter*_blocking", *HOSTS_BETWEEN_NODES)),
    *(f"coll_move.{calls}" for calls in HOSTS_BETWEEN_NODES),
)  # fmt: skip
# Where algorithms are named, all that block are zerohop's but forms that few of these fit.
UNFIT_BETWEEN_NODES = ("scatterv_blocking", "alltoall[vw]_blocking")
OWN_NAMED_BETWEEN_NODES = (*(f"{subject}.*_blocking" for subject in OWN_SUBJECTS), "coll_order.*")
LEFT_OUT_NAMED_BETWEEN_NODES = (
    *STARTED_BETWEEN_NODES,
    *(f"{subject}.{calls}" for subject in OWN_SUBJECTS for calls in UNFIT_BETWEEN_NODES),
)
SERVED = ("semantics", "semantics-mt", "collectives")
WAYS_ENV = {
    "cma": {},
    "nocma": {"ZEROHOP_CMA": "0", "ZEROHOP_HEAP": "1", "ZEROHOP_CONFIG": "single_copy=24K"},
    "noheap": {"ZEROHOP_HEAP": "0"},
}
CELL = ("host", "ranks", "cma", "program")
BUDGET_S = {"quick": 120, "pairwise": 600, "full": 2700}


@dataclasses.dataclass(frozen=True)
class CellName:
    host: str
    ranks: str
    cma: str
    program: str

    def placement(self) -> Placement:
        return Placement.parse(self.ranks)

    def count(self) -> int:
        return self.placement().ranks

    def env(self) -> dict[str, str]:
        env = dict(WAYS_ENV[self.cma])
        if node_ranks := self.placement().node_ranks:
            env = with_setting(env, "node_ranks", str(node_ranks))
        return env

    def __str__(self) -> str:
        return f"{self.host} {self.ranks} {self.cma} {self.program}"


def busy_polls(host: str) -> bool:
    """MPICH never yields: with more ranks than processors each message takes milliseconds."""
    return host.startswith("mpich")


def effort_of(host: str, placement: Placement, quick: bool) -> str:
    many = placement.ranks > 8 or placement.machines > 0
    return "low" if quick or many or (placement.ranks > 2 and not host.startswith("openmpi")) else "normal"


def why_not_placed(host, placement: Placement) -> str:
    """Why the host cannot run a job on these machines, or nothing."""
    return (launcher.why_not(host) or namespaces.why_not()) if placement.machines else ""


# ---- baselines


def library_digest(host) -> str:
    return hashlib.sha256((Path(host.libdir) / host.soname).resolve().read_bytes()).hexdigest()


class Baselines:
    def __init__(self, known: KnownFailures, seed: int, fresh: bool):
        self._known, self._seed, self._fresh, self._done = known, seed, fresh, {}

    def get(
        self, host, program: Program, placement: Placement, effort: str, only: str, without: tuple[str, ...]
    ) -> tuple[Results, float]:
        """What the host alone makes of the program, and the seconds it took now (0 when it was kept)."""
        where = [str(placement), launcher.environment(host)] if placement.machines else placement.ranks
        hangs = self._known.hangs(host.name, program.name, placement)
        what = [host.name, library_digest(host), program.name, program.digest()]
        how = [where, effort, self._seed, only, hangs, without]
        key = hashlib.sha256(json.dumps([what, how]).encode()).hexdigest()[:24]
        name = f"{host.name}-{program.name}-{placement}"
        path = WORK / "baseline" / f"{name}-{key}.json"
        if key in self._done:
            return self._done[key], 0.0
        if path.exists() and not self._fresh:
            results = {name: Test(**test) for name, test in json.loads(path.read_text()).items()}
            self._done[key] = results
            return results, 0.0
        start, log = time.monotonic(), []
        results = program.run(Setting(host, placement, None, {}, effort, self._seed, hangs, only, without), log)
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{name}-*") if not only and not without else []:
            old.unlink()
        path.with_suffix(".log").write_text("\n".join(log))
        path.write_text(json.dumps(as_dicts(results), indent=1))
        self._done[key] = results
        return results, time.monotonic() - start


# ---- one cell


def served(folder: Path) -> Test:
    """Did messages really go through zerohop? A run in which it stayed out would pass everything."""
    messages = 0

    def add(node) -> None:
        nonlocal messages
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "messages" and isinstance(value, int):
                    messages += value
                else:
                    add(value)
        elif isinstance(node, list):
            for value in node:
                add(value)

    files = list(folder.glob("stats*"))
    for path in files:
        try:
            add(json.loads(path.read_text()))
        except ValueError as error:
            return Test("fail", f"{path.name}: {error}")
    if not files:
        return Test("fail", "ZEROHOP_STATS gave no file: zerohop took no part")
    return Test("ok") if messages else Test("fail", "ZEROHOP_STATS counts no message: zerohop took no part")


def nodes_seen(path: Path, expected: list[int]) -> Test:
    """Are the nodes those that the ranks were put on?"""
    try:
        ranks = json.loads(path.read_text())["ranks"]
        seen = [rank["node_ranks"] for rank in sorted(ranks, key=lambda rank: rank["rank"])]
    except (OSError, ValueError, KeyError) as error:
        return Test("fail", f"{path.name}: {error!r}")
    return Test("ok") if seen == expected else Test("fail", f"ranks have nodes of {seen} ranks, expected {expected}")


@dataclasses.dataclass
class Verdict:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    extra: int = 0
    known: int = 0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    extra_passes: list[str] = dataclasses.field(default_factory=list)


def judge(cell: CellName, results: Results, baseline: Results) -> Verdict:
    verdict = Verdict()
    for name in sorted({**baseline, **results}):
        mine, host = results.get(name), baseline.get(name)
        if mine is None:
            if host.status == "ok":
                mine = Test("fail", "did not run, although the host alone passes it")
            else:
                continue
        if mine.status == "ok":
            verdict.passed += 1
            if host is not None and host.status == "fail":
                verdict.extra_passes.append(name)
        elif mine.status == "skip":
            if host is not None and host.status == "ok":
                verdict.failures[name] = f"skipped ({mine.why}), although the host alone passes it"
            else:
                verdict.skipped += 1
        elif host is not None and host.status == "fail":
            verdict.known += 1
            verdict.skipped += 1
        else:
            verdict.failures[name] = mine.why
    verdict.extra = len(verdict.extra_passes)
    verdict.failed = len(verdict.failures)
    return verdict


def failed(results: Results) -> list[str]:
    return [name for name, test in results.items() if test.status == "fail"]


def as_dicts(results: Results) -> dict[str, dict]:
    return {name: dataclasses.asdict(test) for name, test in results.items()}


class Matrix:
    def __init__(self, arguments, all_hosts: dict, all_programs: dict[str, Program]):
        self.arguments, self.hosts, self.programs = arguments, all_hosts, all_programs
        self.known = KnownFailures(HERE / "known_host_failures.toml")
        self.baselines = Baselines(self.known, arguments.seed, arguments.fresh)
        self.zerohop = Zerohop(arguments.build, arguments.via)
        self.report: list[dict] = []
        self.passed = self.failed = self.skipped = 0
        self.checked: set = set()
        self.unplaceable: dict[str, list[CellName]] = {}

    def select(self) -> list[CellName]:
        arguments = self.arguments
        host_names = [h for h in self.hosts if not arguments.host or h in arguments.host]
        ranks = [r for r in RANKS if not arguments.ranks or r in arguments.ranks]
        cma = CMA if arguments.zerohop == "on" else CMA[:1]
        globs = arguments.program or ["*"]
        names = [p for p in self.programs if any(fnmatch.fnmatch(p, glob) for glob in globs)]
        if arguments.zerohop == "off":
            ranks = [r for r in ranks if "n" not in r or r in ("4n1", "16n4")]
        few = arguments.cover == "pairwise" and not arguments.ranks

        def valid(cell) -> bool:
            name = CellName(*cell)
            if self.programs[name.program].usable(self.hosts[name.host]):
                return False
            if few and ((busy_polls(name.host) and name.count() > 2) or name.ranks in FULL_ONLY):
                return False
            # Intel MPI spins while it waits for the network, which takes minutes; Open MPI yields.
            if few and name.placement().machines and (name.cma != "cma" or name.host != "openmpi"):
                return False
            # Without CMA, once inside a node and once across nodes; ranks that are all alone have no CMA to lose.
            if name.cma != "cma" and not few and name.ranks not in NOCMA_RANKS:
                return False
            # The standard ABI is another face of a host that is tried in all shapes: a node, and several.
            if name.host.endswith("-abi") and not few and (name.cma != "cma" or name.ranks not in ABI_RANKS):
                return False
            # Schedules do not ask how their messages travel inside a node.
            if name.program == "collectives-named" and (name.cma != "cma" or name.ranks not in ("3", "5", "4n2")):
                return False
            if name.program == "collectives-leaders" and (name.cma != "cma" or name.ranks not in LEADER_RANKS):
                return False
            if name.program not in PROGRAMS_OF.get(name.ranks, (name.program,)):
                return False
            # Sixteen ranks that poll busily would take hours.
            if busy_polls(name.host) and name.count() > 8:
                return False
            # Without the heap what has large buffers.
            if name.cma == "noheap" and name.program not in ("collectives", "semantics"):
                return False
            if name.ranks == "1" and name.program in ("crash",):
                return False
            if why := why_not_placed(self.hosts[name.host], name.placement()):
                self.unplaceable.setdefault(why, []).append(name)
            return not why

        def cost(cell) -> float:
            name = CellName(*cell)
            # One rank shows little: only where a pair needs it.
            return self.programs[name.program].cost * (3 if name.ranks == "1" else 1 + 0.15 * name.count())

        dimensions = [host_names, ranks, cma, names]
        if arguments.quick:
            wanted = [("mpich", "2"), ("openmpi", "2"), ("impi", "2"), ("mpich-abi", "2")]
            cells = [(h, r, "cma", "semantics") for h, r in wanted if h in host_names and "semantics" in names]
            wanted = [("mpich", "2"), ("openmpi", "3"), ("impi", "2"), ("mpich-abi", "2")]
            cells += [(h, r, "cma", "collectives") for h, r in wanted if h in host_names and "collectives" in names]
        elif arguments.cover == "full" or arguments.zerohop == "off":
            cells = cover.full(dimensions, valid)
            cells.sort(key=lambda cell: (FULL_ORDER.index(cell[1]), cell[2]))
        else:
            cells = cover.pairwise(dimensions, valid, cost)
            cells.sort(key=lambda cell: (RANKS.index(cell[1]) > 1, cost(cell)))
        return [CellName(*cell) for cell in cells]

    def say_unusable(self) -> None:
        """The combinations that do not exist, each with its reason; they count as skipped."""
        for program in self.programs.values():
            reasons: dict[str, list[str]] = {}
            for host in self.hosts.values():
                if why := program.usable(host):
                    reasons.setdefault(why, []).append(host.name)
            for why, names in reasons.items():
                self.skipped += len(names)
                print(f"skip {program.name} under {', '.join(names)}: {why}", flush=True)
        for why, names in self.unplaceable.items():
            self.skipped += len(names)
            where = dict.fromkeys(f"{name.host} {name.ranks}" for name in names)
            print(f"skip {len(names)} cells of {', '.join(where)}: {why}", flush=True)

    def check_baseline(self, cell: CellName, baseline: Results) -> None:
        placement = cell.placement().under_host_alone()
        key = (cell.host, cell.program, placement)
        if key in self.checked:
            return
        self.checked.add(key)
        for name in self.known.unlisted(cell.host, cell.program, placement, baseline):
            if self.arguments.zerohop == "off":
                self.failed += 1
            print(f"  HOST {cell.host} alone fails {cell.program}/{name}, not listed: {baseline[name].why[:300]}")

    def run(self, cell: CellName) -> None:
        host, program = self.hosts[cell.host], self.programs[cell.program]
        # The collectives have most cases by far: all of them with little work, or few within the time.
        brief = self.arguments.quick or (self.arguments.cover == "pairwise" and program.name.startswith("collectives"))
        placement = cell.placement()
        effort = effort_of(cell.host, placement, brief)
        alone = placement.under_host_alone()
        # What zerohop does by itself has to be right whatever the host makes of it.
        own: tuple[str, ...] = ()
        left_out: tuple[str, ...] = ()
        if self.arguments.zerohop == "on" and not placement.alone():
            named = program.name.startswith("collectives-")
            own = OWN_NAMED_BETWEEN_NODES if named else OWN_BETWEEN_NODES
            left_out = LEFT_OUT_NAMED_BETWEEN_NODES if named else LEFT_OUT_BETWEEN_NODES
            if placement.together():
                own, left_out = OWN, ()
        without = (*own, *left_out)
        baseline, baseline_s = self.baselines.get(host, program, alone, effort, self.arguments.only, without)
        if self.arguments.zerohop == "off":
            bad = len(failed(baseline))
            skipped = sum(test.status == "skip" for test in baseline.values())
            self.passed += len(baseline) - bad - skipped
            self.skipped += skipped
            print(f"{cell.host} {alone} {cell.program}: {len(baseline) - bad - skipped} ok, {bad} fail, "
                  f"{skipped} skipped under the host alone ({baseline_s:.0f} s)", flush=True)  # fmt: skip
            self.check_baseline(cell, baseline)
            self.report.append({**dataclasses.asdict(cell), "baseline": as_dicts(baseline)})
            return
        folder = WORK / "logs" / str(cell).replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("stats*"):
            old.unlink()
        log: list[str] = []
        start = time.monotonic()
        env = {**cell.env(), "ZEROHOP_STATS": str(folder / "stats.json")}
        # What ends a job under the host alone must not use up the launches of the other cases.
        apart = (*self.known.hangs(cell.host, cell.program, placement), *failed(baseline))
        setting = Setting(
            host, placement, self.zerohop, env, effort, self.arguments.seed, apart, self.arguments.only, left_out
        )
        results = program.run(setting, log)
        if program.name in SERVED and not placement.alone():
            results["(zerohop took part)"] = served(folder)
            results["(zerohop saw the nodes)"] = nodes_seen(folder / "stats.json", placement.node_sizes())
        seconds = time.monotonic() - start
        (folder / "log").write_text("\n".join(log))
        flaky = {
            name
            for name, test in results.items()
            if test.status == "fail"
            and not any(fnmatch.fnmatch(name, glob) for glob in own)
            and self.known.flaky(cell.host, cell.program, placement, name)
        }
        verdict = judge(cell, results, {**baseline, **{name: results[name] for name in flaky}})
        self.passed += verdict.passed
        self.failed += verdict.failed
        self.skipped += verdict.skipped
        print(f"{cell}: {verdict.passed} ok, {verdict.failed} FAIL, {verdict.skipped} skipped ({verdict.known} "
              f"fail under the host too), {verdict.extra} pass that the host fails "
              f"({seconds:.0f} s + {baseline_s:.0f} s baseline)", flush=True)  # fmt: skip
        for name, why in list(verdict.failures.items())[:MAX_FAILURES_SHOWN]:
            print(f"  FAIL {name}: {why[:500]}", flush=True)
        if verdict.failed > MAX_FAILURES_SHOWN:
            print(f"  ... and {verdict.failed - MAX_FAILURES_SHOWN} more (--json has all)", flush=True)
        self.check_baseline(cell, baseline)
        self.report.append(
            {
                **dataclasses.asdict(cell),
                "seconds": seconds,
                "failures": verdict.failures,
                "extra_passes": verdict.extra_passes,
                "results": as_dicts(results),
            }
        )

    def finish(self) -> int:
        for entry in self.known.stale():
            # A host's own failure may come and go with the load: only the run that judges the hosts is strict.
            strict = self.arguments.zerohop == "off"
            self.failed += strict
            print(f"{'FAIL' if strict else 'note'} known_host_failures.toml: {entry} no longer fails; take it out")
        extra = sorted({f"{r['host']} {r['program']}/{n}" for r in self.report for n in r.get("extra_passes", [])})
        if extra:
            print("pass with zerohop, fail under the host alone:")
            for name in extra:
                print(f"  {name}")
        if self.arguments.json:
            Path(self.arguments.json).write_text(json.dumps(self.report, indent=1))
        # Last, where the end of a log is read: the cells that failed, each with its first failures.
        for cell in [r for r in self.report if r.get("failures")]:
            print(f"failed: {CellName(*(cell[k] for k in CELL))}: {len(cell['failures'])} tests, first of them")
            for name, why in list(cell["failures"].items())[:3]:
                print(f"    {name}: {why[:200]}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cover", choices=("pairwise", "full"), default="pairwise")
    parser.add_argument("--quick", action="store_true", help="the C cases at 2 and 3 ranks, little work, two minutes")
    parser.add_argument("--zerohop", choices=("on", "off"), default="on", help="off: the baselines against the list")
    parser.add_argument("--via", choices=("run", "preload"), default="run", help="zerohop run, or LD_PRELOAD")
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("ZH_BUILD_DIR", ROOT / "build")))
    parser.add_argument("--host", action="append", default=[], help="only this host (repeatable)")
    parser.add_argument("--ranks", action="append", default=[], choices=RANKS, help="only these ranks (repeatable)")
    parser.add_argument("--program", action="append", default=[], metavar="GLOB", help="only these (repeatable)")
    parser.add_argument("--only", default="", metavar="GLOB", help="only tests whose name matches")
    parser.add_argument("--seed", type=int, default=1, help="of the random traffic")
    parser.add_argument("--fresh", action="store_true", help="measure the baselines anew")
    parser.add_argument("--budget", type=float, help="seconds after which no further cell begins (0: none)")
    parser.add_argument("--dry-run", action="store_true", help="print the cells")
    parser.add_argument("--json", metavar="FILE", help="write all results")
    return parser.parse_args(argv)


def main() -> int:
    arguments = parse()
    all_hosts = {h.name: h for h in mpi_hosts.hosts()}
    if unknown := [name for name in arguments.host if name not in all_hosts]:
        raise SystemExit(f"no such host here: {', '.join(unknown)} (there are: {', '.join(all_hosts)})")
    if not all_hosts:
        raise SystemExit("no MPI host is installed: run dev/setup")
    all_programs = {p.name: p for p in [*programs(), *named_programs(), crash_program()]}
    # A job and its nodes end with this process also when it is told to go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    matrix = Matrix(arguments, all_hosts, all_programs)
    cells = matrix.select()
    if not cells and not matrix.unplaceable:
        raise SystemExit("no cell is left by these options")
    if arguments.dry_run:
        for cell in cells:
            print(cell)
        print(f"{len(cells)} cells")
        return 0
    if arguments.zerohop == "on" and (missing := matrix.zerohop.missing()):
        raise SystemExit(f"not built: {missing} (make build)")
    kind = "quick" if arguments.quick else arguments.cover
    budget_s = BUDGET_S[kind] if arguments.budget is None else arguments.budget
    start = time.monotonic()
    # What is calibrated beside a test load must not become the user's calibration.
    cache = WORK / "calibration"
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["ZEROHOP_CACHE"] = str(cache)
    matrix.say_unusable()
    if kind != "quick":
        # More cells than the time holds: another part of them each day.
        order = int(time.strftime("%Y%j"))
        random.Random(order).shuffle(cells)
        print(f"{len(cells)} cells in the order {order}, as far as {budget_s or 'no'} s hold")
    for index, cell in enumerate(cells):
        if budget_s and time.monotonic() - start > budget_s and arguments.zerohop == "on":
            matrix.skipped += len(cells) - index
            print(f"skip {len(cells) - index} cells: the {budget_s:.0f} s are used up; first of them: {cell}")
            break
        matrix.run(cell)
    return matrix.finish()


if __name__ == "__main__":
    sys.exit(main())
