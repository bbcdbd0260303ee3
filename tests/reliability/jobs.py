"""The test programs of this folder and the jobs that run them; starting and ending is that of tests/mpi/matrix."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Outcome, Zerohop, launch  # noqa: E402
from matrix.programs import WORK, binary_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

ZEROHOP = Zerohop(ROOT / "build")
PROGRAMS = ROOT / "tests" / "mpi" / "reliability"
TRAFFIC, MANY, ENTER = PROGRAMS / "traffic.c", PROGRAMS / "many.c", HERE / "enter.c"


@dataclasses.dataclass
class Case:
    """One line of the page. `status`: passed, failed or skipped; `note` says what was measured, or why not."""

    part: str
    name: str
    host: str
    status: str
    note: str


def chosen_hosts(names: list[str]) -> list:
    """The plain hosts: the standard ABI is another face of two of them."""
    return [h for h in mpi_hosts.hosts() if not h.name.endswith("-abi") and (not names or h.name in names)]


def program(host, source: Path) -> str:
    return binary_of(host, source)


def enter_binary() -> str:
    """The filter of system calls, built by the system's compiler: it knows no MPI."""
    target = WORK / "bin" / "enter"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.stat().st_mtime < ENTER.stat().st_mtime:
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", str(ENTER), "-o", str(target)], check=True)
    return str(target)


def start(
    host, ranks: int, words: list[str], timeout_s: float, *, outer: list[str] = (), inner: list[str] = (),
    zerohop: bool = True, env: dict[str, str] | None = None,
) -> Outcome:  # fmt: skip
    """Runs a job; `outer` stands before the launcher, `inner` before each rank's program."""
    host = dataclasses.replace(host, mpiexec=[*outer, *host.mpiexec])
    prefix = ZEROHOP.prefix() if zerohop else []
    return launch(host, Placement(ranks), [*inner, *prefix, *words], timeout_s, None, **(env or {}))


def wrong_with(outcome: Outcome, ranks: int) -> str:
    """What is wrong with a job whose ranks must all say ok, or nothing."""
    if outcome.timed_out:
        return f"did not end within {outcome.seconds:.0f} s"
    if outcome.code != 0:
        return f"exit code {outcome.code}: {' '.join(outcome.tail(3).split())[-300:]}"
    said = sum(line.startswith("ok rank ") for line in outcome.output.splitlines())
    return "" if said == ranks else f"{said} of {ranks} ranks said ok"


def zerohop_lines(outcome: Outcome) -> list[str]:
    return [line for line in outcome.output.splitlines() if re.match(r"zerohop(\[\d+\])?: ", line)]


def metrics(outcome: Outcome) -> dict[str, float]:
    found = {}
    for line in outcome.output.splitlines():
        if line.startswith("metric "):
            name, _, value = line[7:].rpartition(" ")
            found[name] = float(value)
    return found
