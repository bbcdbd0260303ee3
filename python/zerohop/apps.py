"""What applications gain and lose: programs under a host MPI, without and with zerohop in turn.

  zerohop bench apps is,ft,cg,mg --classes S,W --ranks 2,4
  zerohop bench apps --list

Each round launches every program once under each host alone and once with zerohop (its defaults), in an order that
turns with the rounds; a ratio is formed within a round, and the table shows medians with their 95 % interval. Fewer
than 6 rounds resolve nothing. With --against the host's side has zerohop, too, so set. A launch before the first round
is not counted; its messages make the JSON's size tables.
Times are what a program says of its measured part; those of whole jobs, start included, stand in the JSON.
Exit code: 1 where a result is wrong, 2 where an option is wrong or a launch failed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from zerohop import apps_programs as programs
from zerohop.command_line import Parser, amount, must_be_writable
from zerohop.interval import Interval, median_interval
from zerohop.progress import Progress
from zerohop.report import text as texts

SCHEMA = "zerohop-bench-apps/1"
USUAL_HOSTS = ("mpich", "openmpi", "impi")
DEFECT = 1.03  # a loss above it is one
SIDES = ("host", "zerohop")
OPENMPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


class Refused(Exception):
    """Why nothing can be run."""


@dataclasses.dataclass
class Cell:
    """One program of one size on so many ranks of one host, and all that its launches said."""

    app: programs.App
    size: str
    ranks: int
    host: dict
    sizes: dict | None = None
    problem: str = ""
    wrong: str = ""
    values: set[str] = dataclasses.field(default_factory=set)
    rounds: list[dict[str, tuple[float, programs.Outcome]]] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.app.name} {self.size}, {self.ranks} ranks, {self.host['name']}"


def hosts_here(hosts_py: Path | None, near: Path) -> list[dict]:
    """Those of dev/hosts.py, given or found above the command; else the mpiexec in PATH."""
    above = [p / "dev" / "hosts.py" for start in (near, Path.cwd()) for p in (start, *start.parents)]
    table = hosts_py or next((p for p in above if p.exists()), None)
    if table:
        said = subprocess.run([sys.executable, str(table), "--json"], capture_output=True, text=True)
        if said.returncode != 0:
            raise Refused(f"{table}: {said.stderr.strip()[-300:]}")
        return json.loads(said.stdout)
    mpiexec = shutil.which("mpiexec") or shutil.which("mpirun")
    if not mpiexec:
        raise Refused("no mpiexec or mpirun in PATH")
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    ompi = any(word in version for word in ("Open MPI", "OpenRTE", "PRRTE", "prte"))
    library = Path(mpiexec).resolve().parent.parent / "lib"
    # Else a program finds the library with which it was built.
    where = {"LD_LIBRARY_PATH": str(library)} if any(library.glob("libmpi*.so*")) else {}
    return [{"name": "openmpi" if ompi else "mpich", "abi": "ompi" if ompi else "mpich", "mpiexec": [mpiexec],
             "env": where | (OPENMPI_ENV if ompi else {}), "python": shutil.which("python3"), "libdir": str(library),
             "include": str(library.parent / "include")}]  # fmt: skip


def environment(cell: Cell, place: programs.Place, **extra: str) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("ZEROHOP_")}
    env = own | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | cell.host["env"] | extra
    libraries = [*map(str, cell.app.libraries(place)), env.get("LD_LIBRARY_PATH", "")]
    return env | {"LD_LIBRARY_PATH": ":".join(filter(None, libraries))}


def end(process: subprocess.Popen) -> None:
    """Gives a launcher half a second to end its ranks, which are in groups of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
            time.sleep(0.5)
    process.wait()


def launch(
    cell: Cell, side: str, place: programs.Place, timeout_s: float, **env: str
) -> tuple[float, programs.Outcome]:
    """One job's seconds and what its program said; Unreadable where it failed."""
    with tempfile.TemporaryDirectory(prefix="zerohop-apps-") as name:
        folder = Path(name)
        words = cell.app.command(place, cell.host, cell.size, cell.ranks, folder)
        if cell.app.alone:
            words = [*words, "zerohop" if side == "zerohop" else cell.app.alone]
        else:
            zerohop = [str(place.zerohop), "run"] if side == "zerohop" or place.against else []
            env |= {"ZEROHOP_CONFIG": place.against} if side == "host" and place.against else {}
            words = [*cell.host["mpiexec"], "-n", str(cell.ranks), *zerohop, *words]
        begin = time.monotonic()
        with (folder / "said").open("w") as said:
            process = subprocess.Popen(
                words, env=environment(cell, place, **env), cwd=folder, stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(timeout=timeout_s)
            except BaseException as problem:
                end(process)
                if isinstance(problem, subprocess.TimeoutExpired):
                    raise programs.Unreadable(f"did not end within {timeout_s:.0f} s") from problem
                raise
        wall_s = time.monotonic() - begin
        text = (folder / "said").read_text(errors="replace")
        outcome = cell.app.read(folder, text)
        if code != 0 and outcome.verified:
            raise programs.Unreadable(f"exit code {code}: {text.strip()[-300:]}")
        return wall_s, outcome


def sizes_of(path: Path) -> dict | None:
    """From a file of ZEROHOP_STATS, of all ranks: messages by the classes of the hybrid paper's table 1, and by the
    power of two below which they are, and calls of collectives, whose bytes mostly move without messages."""
    if not path.exists():
        return None
    messages: Counter[str] = Counter()
    below: Counter[str] = Counter()
    calls: dict[str, Counter[str]] = {}
    for rank in json.loads(path.read_text())["ranks"]:
        for row in rank["sent"]["by_size"]:
            messages[row["size"]] += row["messages"]
        for row in (row for path_rows in rank["sent"]["by_path"].values() for row in path_rows):
            below[str(row["below_bytes"])] += row["messages"]
        for row in rank["calls"]:
            calls.setdefault(row["call"], Counter()).update({"calls": row["calls"], "bytes": row["bytes"]})
    return {"messages": dict(messages), "below": dict(below), "calls": {name: dict(of) for name, of in calls.items()}}


def look(cell: Cell, side: str, outcome: programs.Outcome) -> None:
    if not outcome.verified:
        cell.wrong = cell.wrong or f"the program says that its result is wrong ({side})"
    if outcome.value is not None:
        cell.values.add(outcome.value)
        if len(cell.values) > 1:
            cell.wrong = cell.wrong or "results differ between launches"


def run_round(cell: Cell, number: int, place: programs.Place, timeout_s: float) -> None:
    """Round 0 is not counted."""
    found: dict[str, tuple[float, programs.Outcome]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="zerohop-apps-stats-") as folder:
            stats = Path(folder) / "stats.json"
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                counting = {"ZEROHOP_STATS": str(stats)} if number == 0 and side == "zerohop" else {}
                found[side] = launch(cell, side, place, timeout_s, **counting)
                look(cell, side, found[side][1])
            if number == 0:
                cell.sizes = sizes_of(stats)
            else:
                cell.rounds.append(found)
    except (programs.Unreadable, OSError, subprocess.CalledProcessError) as problem:
        more = getattr(problem, "stderr", None) or ""
        cell.problem = f"{problem} {more[-300:]}".strip()


def run(cells: list[Cell], rounds: int, place: programs.Place, timeout_s: float) -> None:
    with Progress("bench apps", len(cells) * (rounds + 1)) as progress:
        for number in range(rounds + 1):
            for cell in cells:
                with progress.step(
                    f"round {number} of {rounds}: {cell}" if number else f"before the first round: {cell}"
                ):
                    if not cell.problem:
                        run_round(cell, number, place, timeout_s)


# ---- what is told


def told(interval: Interval) -> dict:
    return {"median": interval.median, "low": interval.low, "high": interval.high, "valid": interval.valid}


def share_of(cell: Cell, side: str) -> float | None:
    shares = [r[side][1].mpi_share for r in cell.rounds]
    known = [s for s in shares if s is not None]
    return statistics.median(known) if known else None


def rows_of(cell: Cell) -> list[dict]:
    """One for each part of a program whose launches all went well."""
    if not cell.rounds:
        return []
    rows = []
    shares = {side: share_of(cell, side) for side in SIDES}
    jobs = {side: [r[side][0] for r in cell.rounds] for side in SIDES}
    parts = [
        p for p in cell.rounds[0]["host"][1].seconds if all(p in r[s][1].seconds for r in cell.rounds for s in SIDES)
    ]
    for part in parts:
        seconds = {side: [r[side][1].seconds[part] for r in cell.rounds] for side in SIDES}
        row: dict = {
            "app": cell.app.name,
            "part": part,
            "class": cell.size,
            "ranks": cell.ranks,
            "host": cell.host["name"],
        }
        for side in SIDES:
            row[f"{side}_s"] = told(median_interval(seconds[side]))
            row[f"{side}_job_s"] = told(median_interval(jobs[side]))
        times_of = {"ratio": seconds, "job_ratio": jobs}
        shared = {side: [r[side][1].mpi_share for r in cell.rounds] for side in SIDES}
        if all(None not in of for of in shared.values()):
            in_mpi = {s: [t * share for t, share in zip(seconds[s], shared[s], strict=True)] for s in SIDES}
            row["mpi_s"] = {side: told(median_interval(in_mpi[side])) for side in SIDES}
            times_of["mpi_ratio"] = in_mpi
        for key, times in times_of.items():
            pairs = zip(times["zerohop"], times["host"], strict=True)
            row[key] = told(median_interval([z / h for z, h in pairs if h > 0]))
        row |= {"rounds": len(cell.rounds), "verified": not cell.wrong, "size_table": cell.sizes}
        row["mpi_share"] = None if None in shares.values() else shares
        rows.append(row)
    return rows


def verdict_of(row: dict) -> str:
    ratio = row["ratio"]
    if not row["verified"]:
        return "WRONG RESULT"
    if not ratio["valid"]:
        return "not resolved"
    if ratio["low"] > DEFECT:
        return "loss above 3 %"
    return "loss" if ratio["low"] > 1 else "gain" if ratio["high"] < 1 else "no difference seen"


VERDICTS = ("WRONG RESULT", "loss above 3 %", "loss", "gain", "no difference seen", "not resolved")


def seconds_text(seconds: float) -> str:
    unit, name = (1.0, "s") if seconds >= 1 else (1e-3, "ms") if seconds >= 1e-3 else (1e-6, "us")
    return f"{seconds / unit:.3g} {name}"


def table(rows: list[dict], rounds: int, against: str = "") -> str:
    other = f"that with {against}" if against else "the host's"
    title = f"zerohop's time by {other} (below 1: faster), medians of {rounds} rounds with 95 % intervals"
    head = ("app", "class", "ranks", "MPI", "alone", "zerohop", "ratio", "interval", "job", "time in MPI", "verdict")
    body = []
    for row in sorted(rows, key=lambda r: (VERDICTS.index(verdict_of(r)), -r["ratio"]["median"])):
        ratio, share = row["ratio"], row["mpi_share"]
        name = f"{row['app']} {row['part']}".strip()
        interval = f"{ratio['low']:.2f}-{ratio['high']:.2f}" if ratio["valid"] else "?"
        in_mpi = f"{share['host']:.0%} -> {share['zerohop']:.0%}" if share else ""
        times = (seconds_text(row[f"{side}_s"]["median"]) for side in SIDES)
        job = f"{row['job_ratio']['median']:.3f}"
        where = (name, row["class"], str(row["ranks"]), row["host"])
        body.append((*where, *times, f"{ratio['median']:.3f}", interval, job, in_mpi, verdict_of(row)))
    title = texts.wrapped(title, texts.columns())
    return f"{title}\n\n{texts.table(head, body, [''] * len(head), texts.shown_columns())}\n"


def listing(apps: list[programs.App], hosts: list[dict], place: programs.Place) -> str:
    lines = []
    for app in apps:
        runs, why = hosts_of(app, hosts, place)
        where = "under " + ", ".join(h["name"] for h in runs) if runs else f"not here: {why}"
        sizes = "" if app.classes == ("-",) else f", classes {' '.join(app.classes)}"
        lines.append(texts.wrapped(f"{app.name:<14} {app.about}{sizes}; {where}", texts.columns(), "", " " * 15))
    return "\n".join(lines) + "\n"


def hosts_of(app: programs.App, hosts: list[dict], place: programs.Place) -> tuple[list[dict], str]:
    """Those under which a program can run, and why the first of the others cannot run it."""
    if app.alone:
        hosts = [{"name": app.alone, "env": {}}]
    elif app.system:
        mpiexec = shutil.which("mpiexec.openmpi") or "mpiexec.openmpi"
        system = {"name": programs.SYSTEM_HOST, "abi": "ompi", "mpiexec": [mpiexec], "env": OPENMPI_ENV}
        hosts = [*(hosts if app.system == "too" else []), system]
    reasons = [(h, app.missing(place, h)) for h in hosts]
    return [h for h, why in reasons if not why], next((why for _, why in reasons if why), "")


def cells_of(
    arguments: argparse.Namespace, apps: list[programs.App], hosts: list[dict], place: programs.Place
) -> list[Cell]:
    cells = []
    left_out: dict[str, list[str]] = {}
    for app in apps:
        runs, why = hosts_of(app, hosts, place)
        if not runs:
            left_out.setdefault(why, []).append(app.name)
        sizes = [s for s in arguments.classes.split(",") if s in app.classes] if app.classes != ("-",) else ["-"]
        cells += [Cell(app, s, n, h) for h in runs for n in arguments.ranks for s in sizes]
    for why, names in left_out.items():
        print(f"zerohop bench apps: not run: {', '.join(names)}: {why}", file=sys.stderr)
    return cells


def chosen(names: str, known: dict, what: str) -> list:
    unknown = [n for n in names.split(",") if n not in known]
    if unknown:
        raise Refused(f"no {what} {', '.join(unknown)} (there are: {', '.join(known)})")
    return [known[n] for n in names.split(",")]


def rank_list(text: str) -> list[int]:
    ranks = [int(n) for n in text.split(",")]
    if any(not 1 <= n <= 4096 for n in ranks):
        raise ValueError(text)
    return ranks


def parse() -> argparse.Namespace:
    parser = Parser("zerohop bench apps", __doc__)
    parser.add_argument("--zerohop", default="zerohop", help=argparse.SUPPRESS)
    parser.add_argument("apps", nargs="?", help="comma list of programs (default: all that can run here)")
    parser.add_argument("--classes", default="S,W", help="problem sizes, of S, W, A, B (default S,W)")
    parser.add_argument("--ranks", type=rank_list, default=[2], help="comma list of numbers of ranks (default 2)")
    parser.add_argument("--hosts", help=f"MPI libraries (default: those of {','.join(USUAL_HOSTS)} that are here)")
    parser.add_argument("--rounds", type=int, default=10, help="rounds (default 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results as JSON")
    parser.add_argument("--list", action="store_true", help="print the programs and what they lack here; start nothing")
    parser.add_argument(
        "--timeout", type=amount, default=600, help="seconds after which a launch is ended (default 600)"
    )
    parser.add_argument("--hosts-py", type=Path, help="the project's dev/hosts.py (default: found above the command)")
    parser.add_argument(
        "--programs", type=Path, help="folder of the benchmark programs (default: as built or installed)"
    )
    parser.add_argument(
        "--against", default="", metavar="SETTINGS", help="compare with zerohop so set, such as heap=0,cma=0"
    )
    arguments = parser.parse_args()
    wrong = [s for s in arguments.classes.split(",") if s not in programs.CLASSES]
    if wrong:
        parser.error(f"no class {', '.join(wrong)}: there are S, W, A, B")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    for setting in re.findall("[^,;]*=[^,;]*", arguments.against):  # what has no sign is a file of settings
        shown = [arguments.zerohop, "info", "--variables", "-o", setting]
        said = subprocess.run(shown, capture_output=True, text=True, check=False).stdout
        if wrong := re.search(r"! (.*\(command line\))", said):
            parser.error(f"--against {setting}: {wrong[1]}")
    return arguments


def place_of(arguments: argparse.Namespace) -> programs.Place:
    zerohop = Path(shutil.which(arguments.zerohop) or arguments.zerohop).resolve()
    installed = zerohop.parent.parent / "libexec" / "zerohop"
    root = Path(__file__).resolve().parents[2]
    env_dir = Path(os.environ.get("ZH_ENV_DIR", root / "build" / "env"))
    binaries = arguments.programs or (installed if installed.exists() else zerohop.parent)
    outside = installed / "outside" if installed.exists() else root / "bench" / "apps" / "outside"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zerohop-apps"
    return programs.Place(zerohop, binaries, env_dir, outside, cache, arguments.against)


def measure(arguments: argparse.Namespace) -> int:
    place = place_of(arguments)
    known = {h["name"]: h for h in hosts_here(arguments.hosts_py, place.zerohop.parent)}
    usual = ",".join(n for n in USUAL_HOSTS if n in known) or ",".join(known)
    hosts = chosen(arguments.hosts or usual, known, "host")
    every = {a.name: a for a in programs.all_apps()}
    apps = chosen(arguments.apps or ",".join(every), every, "program")
    if arguments.list:
        print(listing(apps, hosts, place), end="")
        return 0
    cells = cells_of(arguments, apps, hosts, place)
    if not cells:
        raise Refused("nothing to run")
    must_be_writable((arguments.json,))
    try:
        run(cells, arguments.rounds, place, arguments.timeout)
    except KeyboardInterrupt:
        print("zerohop bench apps: interrupted; what is there is told", file=sys.stderr)
    rows = [row for cell in cells for row in rows_of(cell)]
    if arguments.json:
        document = {"schema": SCHEMA, "rounds": arguments.rounds, "against": arguments.against, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if rows:
        print(table(rows, max(len(cell.rounds) for cell in cells), arguments.against), end="")
    for cell in cells:
        if cell.wrong or cell.problem:
            print(f"zerohop bench apps: {cell}: {cell.wrong or cell.problem}", file=sys.stderr)
    if any(cell.wrong for cell in cells):
        return 1
    return 2 if any(cell.problem for cell in cells) or not rows else 0


def main() -> int:
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # launches are ended first
    try:
        return measure(arguments)
    except (Refused, OSError, ValueError) as why:
        print(f"zerohop bench apps: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
