#!/usr/bin/env python3
"""The demo: unmodified MPI programs under MPICH and Open MPI, without and with zerohop, side by side.

    python3 dev/demo.py [--rounds N] [--host NAME ...] [--json FILE]

Three programs a host: mpi4py's own ping-pong; one that came compiled (Intel's IMB-MPI1 under MPICH, Debian's NetPIPE
under Open MPI); and examples/halo.c, compiled by the host's mpicc. Host and zerohop launches alternate, in an order
that turns with the rounds; a ratio is formed within a round, and the table shows medians. `zerohop run` is the only
difference between the two command lines. One more launch of each counts, through ZEROHOP_STATS, that messages really
went through zerohop. One line warns when other programs use the processors.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import busy

import hosts

ROOT = Path(__file__).resolve().parent.parent
ZEROHOP = ROOT / "build" / "bin" / "zerohop"
LIBRARY = ROOT / "build" / "lib" / "libzerohop.so"
RANKS = 2
SIZES = (8, 1024, 16384, 65536, 1048576, 4194304)
TIMEOUT_S = 180

Times = dict[str, float]  # row label -> microseconds


@dataclasses.dataclass
class Program:
    """A program to show: `parse` turns its output into times."""

    name: str
    command: list[str]
    parse: Callable[[str], Times]


def size_label(size_bytes: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def parse_sizes(pattern: str, scale: float) -> Callable[[str], Times]:
    """Parser of a table whose lines match `pattern` with groups size and time (times `scale` = µs)."""

    def parse(said: str) -> Times:
        rows = ((int(m["size"]), float(m["time"]) * scale) for m in re.finditer(pattern, said, re.MULTILINE))
        return {size_label(size): time for size, time in rows if size in SIZES}

    return parse


def parse_halo(said: str) -> Times:
    match = re.search(r"(\d+) x \d+ each, ([\d.]+) us per step, ([\d.]+) us of it exchange, verified", said)
    return {f"{match[1]}², exchange": float(match[3]), f"{match[1]}², step": float(match[2])} if match else {}


def programs(host: hosts.Host, folder: Path) -> list[Program]:
    """The programs for one host; what is built goes to `folder`."""
    shown = [
        Program(
            "mpi4py pingpong",
            [host.python, "-m", "mpi4py.bench", "pingpong", "-m", "8", "-n", str(SIZES[-1]), "-s", "100", "-l", "1000",
             "--skip-large", "20", "--loop-large", "200", "--skip-huge", "5", "--loop-huge", "30"],
            parse_sizes(r"^ *(?P<size>\d+) +[\d.]+ \| (?P<time>[\d.e+-]+) ±", 1e6),
        )
    ]  # fmt: skip
    imb = hosts.ENV_DIR / "impi" / "bin" / "IMB-MPI1"
    netpipe = hosts.ENV_DIR / "netpipe" / "usr" / "bin" / "NPopenmpi"
    if host.abi == "mpich" and imb.exists():
        command = [str(imb), "PingPong", "-msglog", "3:22", "-iter", "1000"]
        shown.append(
            Program(
                "IMB-MPI1 PingPong", command, parse_sizes(r"^ +(?P<size>\d+) +\d+ +(?P<time>[\d.]+) +[\d.]+\s*$", 1)
            )
        )
    elif host.abi == "ompi" and netpipe.exists():
        command = [str(netpipe), "-p", "0", "-l", "8", "-u", str(SIZES[-1]), "-n", "40", "-o", os.devnull]
        pattern = r"(?P<size>\d+) bytes +\d+ times --> +[\d.]+ Mbps in +(?P<time>[\d.]+) usec"
        shown.append(Program("NetPIPE (Debian)", command, parse_sizes(pattern, 1)))
    else:
        command = [host.python, "-m", "mpi4py.bench", "ringtest", "-q", "-n", "1024", "-l", "20000", "-s", "1000"]
        shown.append(Program("mpi4py ringtest", command, parse_ring))
    halo = folder / f"halo-{host.name}"
    subprocess.run(
        [host.mpicc, "-O2", str(ROOT / "examples" / "halo.c"), "-o", str(halo)], env=host.environment(), check=True
    )
    shown.append(Program("halo exchange (C)", [str(halo), "512", "200"], parse_halo))
    shown.append(Program("halo exchange (C)", [str(halo), "64", "2000"], parse_halo))
    return shown


def parse_ring(said: str) -> Times:
    match = re.search(r"for (\d+) loops = ([\d.e+-]+) seconds", said)
    return {"1 KiB, hop": float(match[2]) / int(match[1]) / RANKS * 1e6} if match else {}


def launch(host: hosts.Host, program: Program, zerohop: bool, folder: Path, **env: str) -> Times:
    """One job; empty when it failed, and then the reason was printed."""
    command = [str(ZEROHOP), "run", *program.command] if zerohop else program.command
    process = subprocess.Popen(
        host.command(RANKS, *command), env=host.environment(**env), cwd=folder, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    except BaseException as problem:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
        said += f"\nkilled after {TIMEOUT_S} s"
    times = program.parse(said)
    if process.returncode != 0 or not times:
        tail = "\n      ".join(said.strip().splitlines()[-6:])
        side = "with zerohop" if zerohop else "alone"
        print(f"  {program.name} under {host.name} {side}: exit {process.returncode}\n      {tail}", file=sys.stderr)
        return {}
    return times


def count_messages(value: object) -> int:
    """Messages sent, of all ranks in a statistics file: each is once below "sent" / "by_path"."""
    if isinstance(value, list):
        return sum(count_messages(v) for v in value)
    if not isinstance(value, dict):
        return 0
    if "messages" in value:
        return int(value["messages"])
    parts = value.get("sent", value)
    parts = parts.get("by_path", parts) if isinstance(parts, dict) else parts
    return sum(count_messages(v) for v in (parts.values() if isinstance(parts, dict) else parts))


def messages_served(host: hosts.Host, program: Program, folder: Path) -> int:
    """How many messages of one launch zerohop counts as its own (0 also when it left no statistics)."""
    for old in folder.glob("stats*"):
        old.unlink()
    launch(host, program, True, folder, ZEROHOP_STATS=str(folder / "stats.json"))
    total = 0
    for path in folder.glob("stats*"):
        try:
            total += count_messages(json.loads(path.read_text()))
        except ValueError:
            print(f"  {path.name} is not JSON", file=sys.stderr)
    return total


def measure(host: hosts.Host, program: Program, rounds: int, zerohop: bool, folder: Path) -> list[dict]:
    """Rows of the table for one program."""
    taken: list[dict[bool, Times]] = []
    for number in range(rounds):
        order = (False, True) if number % 2 == 0 else (True, False)
        taken.append({side: launch(host, program, side and zerohop, folder) for side in order})
    rows = []
    for label in taken[0][False]:
        pairs = [(t[False][label], t[True][label]) for t in taken if label in t[False] and label in t[True]]
        if not pairs:
            continue
        rows.append(
            {
                "program": program.name,
                "host": host.name,
                "size": label,
                "host_us": statistics.median(p[0] for p in pairs),
                "zerohop_us": statistics.median(p[1] for p in pairs),
                "speedup": statistics.median(p[0] / p[1] for p in pairs if p[1] > 0),
                "speedup_least": min(p[0] / p[1] for p in pairs if p[1] > 0),
                "speedup_most": max(p[0] / p[1] for p in pairs if p[1] > 0),
                "rounds": len(pairs),
            }
        )
    return rows


def show(rows: list[dict], served: dict[tuple[str, str], int]) -> None:
    """The table, in colour where the tools' environment has rich and the output is a terminal."""
    head = ("program", "host", "size", "host µs", "zerohop µs", "speed-up", "range")
    lines, last = [], None
    for row in rows:
        key = (row["program"], row["host"])
        names = key if key != last else ("", "")
        last = key
        spread = f"{row['speedup_least']:.2f} – {row['speedup_most']:.2f}"
        numbers = (f"{row['host_us']:.2f}", f"{row['zerohop_us']:.2f}", f"{row['speedup']:.2f}×", spread)
        lines.append((*names, row["size"], *numbers))
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(r[i]) for r in [head, *lines]) for i in range(len(head))]
        for line in [head, tuple("-" * w for w in widths), *lines]:
            cells = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
            print("  ".join(cells))
    else:
        table = Table(*head[:3], title=f"{RANKS} ranks, median of the rounds; speed-up = host time / zerohop time")
        for name in head[3:]:
            table.add_column(name, justify="right")
        for line in lines:
            if line[0] and line is not lines[0]:
                table.add_section()
            table.add_row(*line)
        Console(width=None if sys.stdout.isatty() else 110).print(table)
    for (program, host), count in served.items():
        print(f"  {program} under {host}: {count} messages went through zerohop" + ("" if count else "  <-- NONE"))


def use_tools_environment() -> None:
    """Starts again under the interpreter that has rich, when there is one."""
    python = hosts.ENV_DIR / "tools" / "bin" / "python"
    if python.exists() and Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), *sys.argv])


def main() -> int:
    use_tools_environment()
    parser = argparse.ArgumentParser(description="Unmodified MPI programs without and with zerohop.")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each side (default 3)")
    parser.add_argument("--host", action="append", help="only this host (repeatable; default mpich and openmpi)")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    zerohop = ZEROHOP.exists() and LIBRARY.exists()
    if not zerohop:
        print(f"demo: {ZEROHOP} or {LIBRARY} is missing: BOTH SIDES RUN THE HOST ALONE", file=sys.stderr)
    warning = busy.warning_at_start()
    if warning:
        print(f"demo: {warning}", file=sys.stderr)
    watch = busy.Watch()
    rows: list[dict] = []
    served: dict[tuple[str, str], int] = {}
    incomplete = False
    with tempfile.TemporaryDirectory(prefix="zerohop-demo-") as name:
        folder = Path(name)
        for host in [hosts.host(h) for h in arguments.host or ("mpich", "openmpi")]:
            for program in programs(host, folder):
                print(
                    f"demo: {program.name} under {host.name}, {arguments.rounds} rounds ...",
                    file=sys.stderr,
                    flush=True,
                )
                new = measure(host, program, arguments.rounds, zerohop, folder)
                incomplete |= not new or any(r["rounds"] < arguments.rounds for r in new)
                rows += new
                if zerohop:
                    key = (program.name, host.name)
                    served[key] = served.get(key, 0) + messages_served(host, program, folder)
    show(rows, served)
    warning = watch.warning("the machine was busy: during the demo")
    if warning:
        print(f"demo: {warning}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "zerohop": zerohop}, indent=2) + "\n")
    if incomplete:
        print("demo: some launches failed, see above", file=sys.stderr)
    if zerohop and not all(served.values()):
        print("demo: a program ran without a single message through zerohop", file=sys.stderr)
    return 1 if incomplete or not zerohop or not all(served.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
