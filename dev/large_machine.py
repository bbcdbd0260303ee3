"""What dev/large_machine.sh measures and tries: parts that are each bounded in time. Started by that script.

Needs what its `--pack` selects of a checkout, and Python 3.10 alone. A part that runs out of time keeps what it wrote.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "dev")]

from matrix import programs  # noqa: E402
from matrix.known import KnownFailures  # noqa: E402
from matrix.launch import TOKEN, end_all, processes_with  # noqa: E402
from matrix.results import read_lines  # noqa: E402
from run_matrix import OWN, served  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

ZEROHOP = str(ROOT / "build" / "bin" / "zerohop")
HOSTS = ("openmpi", "mpich")
BIND = {"openmpi": ["--map-by", "core", "--bind-to", "core:if-supported"], "mpich": ["-bind-to", "core"]}
PREPARED = ROOT / "build" / "tests-mpi" / "prepared"  # what needs a compiler, or a newer Python
ROUNDS = 6  # fewer give no interval
SIZES, QUICK_SIZES = "8,4K,64K,1M", "8,64K"
SHAPES = ["coll", "--only", "linear_bcast,binomial_bcast"]  # what `zerohop model report` reads
CASE_TIMEOUT_S, MOST_RELAUNCHES = "30", 12
ANY_CODE = tuple(range(-64, 256))


class CutOff(Exception):
    """The part's time is up."""


class Skipped(Exception):
    """The part has nothing to do here; the reason."""


class Run:
    """Where results go, and how commands are started so that nothing of them stays."""

    def __init__(self, out: Path, quick: bool):
        self.out, self.quick = out, quick
        self.token = uuid.uuid4().hex
        self.allowed = sorted(os.sched_getaffinity(0))
        self.part_s = 0.0  # of the running part
        self.kept = 0  # commands of the running part that ended well
        self.failures: list[str] = []  # of the running part
        (out / "cache").mkdir(parents=True, exist_ok=True)
        # What is calibrated here is a result, and no user's.
        self.env = {**os.environ, TOKEN: self.token, "ZEROHOP_CACHE": str(out / "cache")}

    def execute(self, name: str, words: list[str], cpus: list[int] = (), good: tuple[int, ...] = (0,), env=None) -> int:
        """Runs a command with its output at the end of OUT/<name>.txt, on `cpus` alone; a code not in `good` is a
        failure."""
        os.sched_setaffinity(0, cpus or self.allowed)
        with (self.out / f"{name}.txt").open("a") as log:
            log.write(f"$ {' '.join(words)}\n")
            log.flush()
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**self.env, **(env or {})}, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait()
            finally:
                os.sched_setaffinity(0, self.allowed)
                if process.poll() is None or processes_with(self.token):
                    end_all(process, self.token)
            log.write(f"exit code {code}\n\n")
        if code in good:
            self.kept += 1
        else:
            self.failures.append(f"exit code {code}: {' '.join(words[:6])} ..., see {name}.txt")
        return code

    def zerohop(self, name: str, *words: str, **how) -> int:
        return self.execute(name, [ZEROHOP, *words], **how)

    def cores(self) -> list[int]:
        """A processor of each core, no more than the cgroup grants the time of; all processors of a single core."""
        first: dict[str, int] = {}
        for cpu in self.allowed:
            path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            first.setdefault(path.read_text() if path.exists() else str(cpu), cpu)
        cores = list(first.values()) if len(first) > 1 else self.allowed
        if len(cores) < 2:
            raise Skipped("one processor alone")
        info = json.loads((self.out / "info.json").read_text())
        return cores[: max(2, int(info["machine"]["cgroup_cpus"] or len(cores)))]

    def ranks(self, *wanted: int) -> list[int]:
        """Those of `wanted` that have a core each, and as many ranks as there are cores."""
        cores = len(self.cores())
        return sorted({n for n in wanted if n <= cores} | {cores})

    def rounds(self, name: str, cases: dict[str, tuple[list[str], list[int]]], hosts: tuple[str, ...] = HOSTS) -> None:
        """Rounds of all `cases`, each a command of `zerohop bench` and its processors: bare and with zerohop under
        each host, kept as they come. All of a case are judged together in the end, also when the time is up."""
        how = ["--quick", "--rounds", "1", "--timeout", f"{max(15, self.part_s / 3):.0f}"]
        kept = self.out / "launches"
        kept.mkdir(exist_ok=True)
        try:
            for number in range(1 if self.quick else ROUNDS):
                for label, (words, cpus) in cases.items():
                    for host in hosts:
                        path = kept / f"{name}-{label}.{number}.{host}.json"
                        under = ["--hosts", host, "--under", host, "--launches", str(path)]
                        self.zerohop(name, "bench", *words, *how, *under, cpus=cpus)
        finally:
            for label, (words, _) in cases.items():
                bench = SHAPES if words[:3] == SHAPES else words[:1]
                self.judge(f"{name}-{label}", bench, sorted(kept.glob(f"{name}-{label}.*.json")))

    def judge(self, name: str, bench: list[str], parts: list[Path]) -> None:
        """One table of the launches of several rounds and hosts: OUT/<name>.txt and .json."""
        merged: dict = {}
        for path in parts:
            document = json.loads(path.read_text())
            for launch in document["launches"]:
                launch["round"] = int(path.name.split(".")[-3])
            merged = {**document, "launches": [*merged.get("launches", []), *document["launches"]]}
        if merged:
            path = self.out / "launches" / f"{name}.json"
            path.write_text(json.dumps(merged))
            for part in parts:
                part.unlink()
            self.zerohop(name, "bench", *bench, "--rejudge", str(path), "--json", str(self.out / f"{name}.json"))


# ---- the parts


DESCRIBE = """
uname -a; ldd --version | head -n 1; lscpu; lscpu -e; numactl -H; df -h /dev/shm /tmp; ulimit -a
lstopo --of console || grep -s . /sys/devices/system/cpu/cpu[0-9]*/{topology/*_list,cache/index[23]/shared_cpu_list}
grep -s . /sys/fs/cgroup/{cpu.max,cpuset.cpus.effective,memory.max,cpu/cpu.cfs_*_us,cpuset/cpuset.cpus}
grep -s . /proc/{loadavg,meminfo,net/dev,self/status,self/cgroup,sys/kernel/yama/ptrace_scope}
grep -s . /sys/devices/system/node/node*/distance /sys/kernel/mm/transparent_hugepage/*enabled
"""


def machine(run: Run) -> None:
    run.execute("machine", ["bash", "-c", f"set -x{DESCRIBE}"], good=ANY_CODE)  # what is not there is no failure
    run.zerohop("machine", "doctor", good=(0, 1))  # 1: something costs speed
    run.zerohop("info", "info", "--json")
    text = (run.out / "info.txt").read_text()
    (run.out / "info.json").write_text(text[text.index("{") : text.rindex("}") + 1])


def lines(run: Run) -> None:
    cpus = run.allowed if len(run.allowed) <= 128 else run.cores()
    run.zerohop("lines", "bench", "raw", "--lines", "--json", str(run.out / "lines.json"), cpus=cpus, good=(0, 77))


def tune(run: Run) -> None:
    words = ["tune", "--json", str(run.out / "tuned.json"), "--under", HOSTS[0], "--rounds", "1" if run.quick else "6"]
    if run.zerohop("tune", *words, good=(0, 1)) == 1:
        raise Skipped("the machine was not quiet, or did not stay as it was: see tune.txt")


def distances(run: Run) -> None:
    """The first distance is the nearest: hardware threads of a core, where there are."""
    pairs_of = json.loads((run.out / "lines.json").read_text())["distances"]
    sizes = QUICK_SIZES if run.quick else "8,64,1K,4K,16K,64K,256K,1M,4M"
    raw = {pair["level"]: str(run.out / f"raw-{pair['level']}.json") for pair in pairs_of}
    for pair in [] if run.quick else pairs_of:
        words = ["bench", "raw", "--quick", "--blocks", "1", "--json", raw[pair["level"]]]
        run.zerohop("distances", *words, cpus=pair["cpus"])
    cases = {}
    for bench in ("latency", "rate", "noreuse"):
        for pair in pairs_of:
            words = ["p2p", "--only", bench, "--buffers", "malloc", "--sizes", sizes]
            words += ["--raw", "off" if run.quick else raw[pair["level"]]]
            cases[f"{pair['level']}-{bench}"] = (words, pair["cpus"])
    run.rounds("distances", cases)


def pairs(run: Run) -> None:
    cores = run.cores()
    cases = {}
    for ranks in sorted({n - n % 2 for n in run.ranks(2, 4, 8, 16, 32, 64, 128)}):
        only = "bandwidth,rate" if ranks == 2 else "multipair"
        words = ["p2p", "--only", only, "--ranks", str(max(ranks, 4)), "--buffers", "malloc", "--raw", "off"]
        cases[f"{ranks}"] = ([*words, "--sizes", QUICK_SIZES if run.quick else SIZES], cores[:ranks])
    run.rounds("pairs", cases)


def collectives(run: Run) -> None:
    pace = ["--sizes", QUICK_SIZES if run.quick else SIZES, "--block-us", "1000", "--case-s", "0.1"]
    cores = run.cores()
    run.rounds("collectives", {str(n): (["coll", "--ranks", str(n), *pace], cores[:n]) for n in run.ranks(2, 4, 8, 16)})


def models(run: Run) -> None:
    """Messages as the models have them, and the algorithms of collectives, beside the models of the tuned profile."""
    profile = str(run.out / "tuned.json")
    if not Path(profile).exists():
        raise Skipped("no profile was tuned")
    cores = run.cores()
    cases = {f"shapes-{n}": ([*SHAPES, "--ranks", str(n)], cores[:n]) for n in run.ranks(2, 8)}
    if not run.quick:
        n = run.ranks(2, 8)[-1]
        only = ["--only", "bcast,allreduce,allgather", "--sizes", SIZES]
        cases[f"algorithms-{n}"] = (["algorithms", *only, "--ranks", str(n)], cores[:n])
    run.zerohop("models", "tune", "--model", profile, "--ranks", str(len(cores)))
    try:
        run.rounds("models", cases, HOSTS[:1])
    finally:
        for label in cases:
            if (path := run.out / f"models-{label}.json").exists():
                run.zerohop(f"models-{label}", "model", "report", str(path), "--profile", profile, "--points")


# ---- conformance


def prepare() -> None:
    PREPARED.mkdir(parents=True, exist_ok=True)
    entries = KnownFailures(ROOT / "tests" / "mpi" / "known_host_failures.toml").entries
    for host in map(mpi_hosts.host, HOSTS):
        # What hangs or depends on timing under a host would take the time of all others, with any number of ranks.
        skip = [e.test for e in entries if host.name in e.host and (e.hangs or e.flaky) and e.test[:5] != "coll_"]
        (PREPARED / f"{host.name}.skip").write_text(",".join(skip))
        shutil.copy2(programs.semantics_binary(host), PREPARED / f"semantics-{host.name}")
        shutil.copy2(programs.collectives_binary(host), PREPARED / f"collectives-{host.name}")


def try_cases(run: Run, log: str, command: list[str], env: dict[str, str], failed: dict[str, str]) -> None:
    """Adds the cases that fail, each with the reason; goes on behind one that ended the job."""
    path, after = run.out / f"{log}.txt", []
    for _ in range(MOST_RELAUNCHES):
        begin = path.stat().st_size if path.exists() else 0
        try:
            code = run.execute(log, [*command, *after], good=ANY_CODE, env=env)
        finally:
            reading = read_lines(path.read_bytes()[begin:].decode(errors="replace"))
            failed |= {case: test.why for case, test in reading.results.items() if test.status == "fail"}
        culprit = reading.running or (list(reading.results)[-1] if reading.results else "(start)")
        if (code != 0 and not failed) or not reading.complete:
            failed.setdefault("(end)" if reading.complete else culprit, f"the job ended with code {code}")
        if reading.complete or culprit == "(start)":
            return
        after = ["--after", culprit]


def conformance_of(run: Run, name: str, host: mpi_hosts.Host, ranks: int, glob: str) -> None:
    log, skip = f"conformance-{name}-{host.name}-{ranks}", (PREPARED / f"{host.name}.skip").read_text()
    program = [str(PREPARED / f"{name}-{host.name}"), "--trace", "--effort", "low", "--timeout", CASE_TIMEOUT_S]
    bound = [*host.mpiexec, *BIND[host.name], "-n", str(ranks)]
    stats = run.out / "stats" / log
    stats.mkdir(parents=True, exist_ok=True)
    env = {**host.env, "ZEROHOP_STATS": str(stats / "stats.json")}
    failed: dict[str, str] = {}
    alone: dict[str, str] = {}
    try:
        try_cases(run, log, [*bound, ZEROHOP, "run", *program, "--filter", glob, "--skip", skip], env, failed)
        if (took_part := served(stats)).status != "ok":
            failed["(zerohop took part)"] = took_part.why
        for case in failed:
            # Others are zerohop's alone, whatever the host makes of them.
            if "(" not in case and not any(fnmatch.fnmatch(case, own) for own in OWN):
                try_cases(run, f"{log}-alone", [*bound, *program, "--filter", case], host.env, alone)
    finally:
        with (run.out / "conformance.txt").open("a") as text:
            for case, why in failed.items():
                told = f"{name} {case}, {ranks} ranks, {host.name}: {why}"
                text.write(f"{'the host alone, too:' if case in alone else 'FAIL'} {told}\n")
                run.failures += [] if case in alone else [told]


def conformance(run: Run) -> None:
    globs = [("semantics", "stress.*"), ("collectives", "coll_order.*,coll_reduce.*" if run.quick else "*")]
    globs += [] if run.quick else [("semantics", "*")]
    for name, glob in globs:
        for ranks in run.ranks(16):
            for host in map(mpi_hosts.host, HOSTS):
                conformance_of(run, name, host, ranks, glob)


# ---- all of it

PARTS: list[tuple[Callable[[Run], None], int]] = [
    (machine, 3), (lines, 5), (tune, 20), (distances, 24), (pairs, 12), (collectives, 24), (conformance, 16),
    (models, 8),
]  # fmt: skip


def run_part(run: Run, part: Callable[[Run], None], seconds: float) -> tuple[str, str]:
    """passed, failed or skipped, and what the summary says."""
    run.part_s, run.kept, run.failures = seconds, 0, []
    signal.setitimer(signal.ITIMER_REAL, seconds)
    said = "done"
    try:
        part(run)
    except CutOff:
        said = f"cut off after {run.kept} commands"
        if run.kept == 0:  # whatever hangs must not look like a slow machine
            run.failures.append("nothing in its time")
    except Skipped as why:
        said = f"skipped: {why}"
    except Exception as problem:  # the others still run
        run.failures.append(repr(problem))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if run.failures:
        return "failed", f"failed ({len(run.failures)}): {run.failures[0]}"
    return ("passed" if said == "done" else "skipped"), said


def cut_off(*_) -> None:
    raise CutOff


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder of the results; none: only compile what they need")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--quick", action="store_true", help="one round, few sizes")
    arguments = parser.parse_args()
    if not arguments.out:
        prepare()
        return 0
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, cut_off)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    end = time.monotonic() + arguments.seconds
    run, counts, failed = Run(out, arguments.quick), {"passed": 0, "failed": 0, "skipped": 0}, []
    summary: list[str] = []
    for number, (part, weight) in enumerate(PARTS):
        begin = time.monotonic()
        share = max(1.0, (end - begin) * weight / sum(w for _, w in PARTS[number:]))
        verdict, said = run_part(run, part, share)
        counts[verdict] += 1
        failed += [f"failed: {part.__name__}: {why}" for why in run.failures]
        summary.append(f"{part.__name__:12} {time.monotonic() - begin:6.1f} s of {share:5.1f}  {said}")
        print(summary[-1], flush=True)
        closing = "\n".join([*failed, ", ".join(f"{count} {verdict}" for verdict, count in counts.items())])
        (out / "summary.txt").write_text("\n".join([*summary, closing]) + "\n")
    print(closing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
