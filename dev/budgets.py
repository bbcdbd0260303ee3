#!/usr/bin/env python3
"""Compares how many instructions MPI calls take under zerohop with what tests/mpi/budgets.json allows.

    dev/budgets.py                    # compares; part of `make check`, half a minute
    dev/budgets.py --write            # writes what the calls take now into the table
    dev/budgets.py --profiles after   # and keeps profiles, for callgrind_annotate --auto=no after/mpich-MPI_Send-8

Times vary by more than most changes of the code make; instructions do not. callgrind counts those of a call, of the
library and libc, not of the kernel, nor of the program that calls. tests/mpi/budgets/counted_calls.c makes the calls,
and sees to it that none waits: what it needs from the other rank is there. So waiting, caches and locked instructions
are not in a count; `zerohop bench` times them. Messages come by 16, and the count is of one.

A count that differs from the table by more than 3 % fails, in either direction. More: find what added them, by a
profile of each version, or, if they are worth it, --write. Less: --write, or the next change can lose again unseen what
this one gained. The table goes in with the change, and the commit says why.

What else would make counts differ is fixed: the topology (two cores behind one cache, so pairs are far; the measured
time of a line does not count under it), built-in thresholds (ZEROHOP_PROFILE=builtin, and no folders of calibrations),
waiting that never sleeps, else a call would have to wake its peer (ZEROHOP_WAIT=spin), and the shared heap, which
valgrind keeps out anyway (ZEROHOP_HEAP=0). valgrind shows every program the same processor, with AVX2 at most.
Skipped, and said so: without valgrind, AVX2 or two processors, or where another compiler has built the library than
the table names. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "dev"), str(ROOT / "tests" / "mpi")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Zerohop, launch  # noqa: E402
from matrix.programs import binary_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

TABLE = ROOT / "tests" / "mpi" / "budgets.json"
SOURCE = ROOT / "tests" / "mpi" / "budgets" / "counted_calls.c"
ZEROHOP = Zerohop(ROOT / "build")
HOSTS = ("mpich", "openmpi")
TOLERANCE = 0.03
# What a setting adds to a call, as a small difference of two counts. Of MPI_Waitall it differs between machines by the
# 120 instructions of one wait in a window of 16 messages.
DIFFERENCE = "stats_time: "
WAITS_IN_IT, ONE_WAIT = f"{DIFFERENCE}MPI_Waitall", 8
TIMEOUT_S = 120
PAGE_BYTES = 4096
VALGRIND = ("--tool=callgrind", "--quiet", "--instr-atstart=no", "--separate-threads=yes")
SETTINGS = {
    "ZEROHOP_CONFIG": "site=,topology=synthetic:pack:1 numa:1 l3:1 core:2 pu:1",
    "ZEROHOP_PROFILE": "builtin",
    "ZEROHOP_WAIT": "spin",
    "ZEROHOP_HEAP": "0",
    "ZEROHOP_LOG": "info",  # for SERVED
}
SERVED = "to rank 1 (shared-l3"  # told at MPI_Init where zerohop takes part and has taken the topology
WRITE = "dev/budgets.py --write"


@dataclasses.dataclass(frozen=True)
class Row:
    host: str
    call: str
    bytes: int
    instructions: float  # of one call; of several one after the other, their mean

    @property
    def key(self) -> tuple[str, str, int]:
        return self.host, self.call, self.bytes

    def __str__(self) -> str:
        return f"{self.host} {self.call} {self.bytes} B"


# ---- what the calls take


class NotCounted(Exception):
    """A job that did not go as it should."""


@dataclasses.dataclass(frozen=True)
class Count:
    """One dump of callgrind: `instructions` of `calls` calls."""

    call: str
    bytes: int
    calls: int
    instructions: int
    profile: str  # the whole dump


def read_count(profile: str) -> Count | None:
    """None: the program did not ask for it."""
    what = re.search(r"^desc: Trigger: Client Request: (\S+) (\d+) (\d+)$", profile, re.MULTILINE)
    return Count(what[1], int(what[2]), int(what[3]), instructions(profile), profile) if what else None


def instructions(profile: str) -> int:
    """Of all functions but the program's own."""
    names: dict[str, str] = {}
    total, own, of_callee = 0, False, False
    for line in profile.splitlines():
        if found := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line):
            callee, number, name = found.groups()
            names[number] = name or names[number]
            own = own if callee else SOURCE.stem in names[number]
        elif line.startswith("calls="):
            of_callee = True  # the next line is what the callee took
        elif found := re.fullmatch(r"(?:\*|[+-]?\d+) (\d+)", line):
            total += 0 if own or of_callee else int(found[1])
            of_callee = False
    return total


def usual(counts: list[Count]) -> dict[tuple[str, int], Count]:
    """The median of each call's: the first ones set things up, which happens once."""
    found = collections.defaultdict(list)
    for count in counts:
        found[count.call, count.bytes].append(count)
    return {key: sorted(same, key=lambda c: c.instructions)[(len(same) - 1) // 2] for key, same in found.items()}


def rows_of(host: str, found: dict[tuple[str, int], Count]) -> list[Row]:
    rows = [Row(host, call, size, round(count.instructions / count.calls, 1)) for (call, size), count in found.items()]
    return sorted(rows, key=lambda row: (row.bytes, row.call))


def measure(host, profiles: Path | None, *arguments: str, **more: str) -> list[Row]:
    """One job."""
    with tempfile.TemporaryDirectory(prefix="zh-budgets-") as name:
        folder = Path(name)
        page = folder / "page"
        page.write_bytes(bytes(PAGE_BYTES))
        program = [binary_of(host, SOURCE), str(page), *arguments]
        command = ["valgrind", *VALGRIND, f"--callgrind-out-file={folder}/counts.%p", *program]
        env = {**SETTINGS, "ZEROHOP_CACHE": str(folder / "cache"), **more}
        outcome = launch(host, Placement(2), command, TIMEOUT_S, ZEROHOP, **env)
        counts = [read_count(path.read_text()) for path in folder.glob("counts.*")]
    if outcome.code != 0:
        raise NotCounted(f"{'time limit' if outcome.timed_out else f'exit code {outcome.code}'}: {outcome.tail()}")
    if SERVED not in outcome.output:
        raise NotCounted(f"zerohop did not serve the job as it was set up: {outcome.tail()}")
    found = usual([count for count in counts if count is not None])
    if profiles is not None:
        profiles.mkdir(parents=True, exist_ok=True)
        for (call, size), count in found.items():
            (profiles / f"{host.name}-{call}-{size}").write_text(count.profile)
    return rows_of(host.name, found)


def stats_time(host) -> list[Row]:
    """What the setting adds to each call of a job with statistics; jobs without it are counted by themselves."""
    usual, stats = SETTINGS["ZEROHOP_CONFIG"], {"ZEROHOP_STATS": os.devnull}
    off, on = (measure(host, None, ZEROHOP_CONFIG=f"stats_time={n},{usual}", **stats) for n in (0, 1))
    return [Row(a.host, f"{DIFFERENCE}{a.call}", a.bytes, round(b.instructions - a.instructions, 1))
            for a, b in zip(off, on, strict=True) if a.bytes == min(row.bytes for row in off)]  # fmt: skip


def threads(host) -> list[Row]:
    """Of a job in which several threads may call at once."""
    return [dataclasses.replace(row, call=f"threads: {row.call}") for row in measure(host, None, "threads")]


def all_of(host, profiles: Path | None, budgets: list[Row]) -> list[Row]:
    """Rarely a timer or a preemption adds a turn to a call: what is off is counted once more."""

    def once(folder: Path | None) -> list[Row]:
        return measure(host, folder) + (stats_time(host) + threads(host) if host.name == HOSTS[0] else [])

    rows, known = once(profiles), {budget.key: budget for budget in budgets}
    off = {row.key for row in rows if row.key in known and judge(row, known[row.key])}
    again = {row.key: row for row in (once(None) if off else [])}
    return [again.get(row.key, row) if row.key in off else row for row in rows]


# ---- the table


def built_by() -> str:
    """Compiler and major version, by what it left in the library for debuggers."""
    found = re.search(rb"(GNU) C\+\+\d* (\d+)\.|(clang) version (\d+)\.", ZEROHOP.library.read_bytes())
    return " ".join(word.decode() for word in found.groups() if word) if found else "an unknown compiler"


def read_table() -> tuple[str, list[Row]]:
    if not TABLE.exists():
        return "", []
    document = json.loads(TABLE.read_text())
    return document["compiler"], [Row(**row) for row in document["budgets"]]


def write_table(compiler: str, rows: list[Row]) -> None:
    lines = ",\n".join("    " + json.dumps(dataclasses.asdict(row)) for row in rows)
    TABLE.write_text(f'{{\n  "compiler": {json.dumps(compiler)},\n  "budgets": [\n{lines}\n  ]\n}}\n')


def judge(row: Row, budget: Row | None) -> str:
    """What is wrong with a count, or nothing."""
    if budget is None:
        return f"and no budget in {TABLE.name}: {WRITE}"
    change = row.instructions / budget.instructions - 1
    if abs(change) <= TOLERANCE:
        return ""
    if row.call.startswith(WAITS_IN_IT) and abs(row.instructions - budget.instructions) <= ONE_WAIT:
        return ""
    said = f"instead of {budget.instructions:g}, {100 * change:+.1f} %: "
    if change < 0:
        return said + f"an improvement, which is to be written down, or it can be lost again unseen: {WRITE}"
    return said + f"find what added them; if they are worth it: {WRITE}"


def compare(rows: list[Row], budgets: list[Row]) -> list[tuple[str, str]]:
    """Name and verdict of each count, then of each budget of these hosts whose call was not counted."""
    known = {budget.key: budget for budget in budgets}
    verdicts = [(f"{row}: {row.instructions:g} instructions", judge(row, known.get(row.key))) for row in rows]
    counted, hosts = {row.key for row in rows}, {row.host for row in rows}
    lost = [budget for budget in budgets if budget.host in hosts and budget.key not in counted]
    return verdicts + [(f"{budget}:", f"in {TABLE.name}, but not counted any more") for budget in lost]


def self_test() -> int:
    """Proves that each kind of difference is found, and none where there is none."""
    budget = Row("h", "MPI_Send", 8, 200.0)
    kept = [dataclasses.replace(budget, instructions=n) for n in (200.0, 205.9, 194.1)]
    planted = {
        "more": ([dataclasses.replace(budget, instructions=206.1)], [budget], "find what added them"),
        "less": ([dataclasses.replace(budget, instructions=193.9)], [budget], "an improvement"),
        "a new call": ([budget], [], "no budget"),
        "a lost call": ([budget], [budget, Row("h", "MPI_Recv", 8, 1.0)], "not counted"),
    }
    wrong = [f"reported without a fault: {row}" for row in kept if any(v for _, v in compare([row], [budget]))]
    for name, (rows, budgets, words) in planted.items():
        if not any(words in verdict for _, verdict in compare(rows, budgets)):
            wrong.append(f"not found: {name}")
    form = (
        "desc: Trigger: Client Request: MPI_Isend 8 4\n\nob=(1) /lib/libzerohop.so\nfn=(1) MPI_Isend\n404 {}\n"
        "ob=(2) /bin/counted_calls-h\nfn=(2) main\n+3 17\ncob=(1)\ncfn=(1)\ncalls=4 -1\n* 400\nob=(1)\nfn=(3) f\n* 1\n"
    )
    counts = [read_count(form.format(n)) for n in (9999, 399, 396)]
    if None in counts or rows_of("h", usual(counts)) != [Row("h", "MPI_Isend", 8, 100.0)]:
        wrong.append("profiles are not read as they are")
    if read_count("desc: Trigger: Program termination\n\n404 9999\n") is not None:
        wrong.append("what the program did not ask for is counted")
    print("\n".join(wrong) or "every planted fault was found")
    return 1 if wrong else 0


# ---- the command


def why_not(compiler: str, write: bool) -> str:
    """Why nothing can be counted or compared here, or nothing."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if platform.machine() != "x86_64" or flags is None or "avx2" not in flags[1].split():
        return "the table is of x86-64 processors with AVX2"
    if len(os.sched_getaffinity(0)) < 2:
        return "two ranks need two processors, else zerohop goes other ways"
    if shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists():
        return "valgrind is not installed (package valgrind, dev/setup check)"
    if not write and compiler != built_by():
        return f"the table is of {compiler or 'no compiler'}, the library was built by {built_by()}"
    return ""


def write(rows: list[Row], compiler: str, budgets: list[Row]) -> None:
    """Budgets of hosts that were not counted stay, as long as the compiler is the same."""
    hosts = {row.host for row in rows}
    kept = [budget for budget in budgets if budget.host not in hosts and compiler == built_by()]
    known = {budget.key: budget.instructions for budget in budgets}
    for row in rows:
        before = known.get(row.key)
        if before != row.instructions:
            print(f"{row}: {row.instructions:g}" + (f", was {before:g}" if before is not None else ", new"))
    write_table(built_by(), sorted([*kept, *rows], key=lambda row: row.host))
    print(f"written: {TABLE.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the counts into the table instead of comparing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts, in the table's form, to this file")
    parser.add_argument("--host", action="append", default=[], choices=HOSTS, help="only this host (repeatable)")
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", help="keep callgrind's profile of each call there")
    parser.add_argument("--self-test", action="store_true", help="prove that differences are found, and stop")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if missing := ZEROHOP.missing():
        raise SystemExit(f"not built: {missing} (make build)")
    for name in [n for n in os.environ if n.startswith("ZEROHOP_") or n in ("LD_PRELOAD", "GLIBC_TUNABLES")]:
        del os.environ[name]
    compiler, budgets = read_table()
    if why := why_not(compiler, arguments.write):
        print(f"skipped: {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    rows, failed, skipped = [], 0, 0
    for name in arguments.host or HOSTS:
        host = next((host for host in mpi_hosts.hosts() if host.name == name), None)
        if host is None:
            print(f"skipped: {name} is not installed (dev/setup)")
            skipped += 1
            continue
        try:
            rows += all_of(host, arguments.profiles, [] if arguments.write else budgets)
        except NotCounted as problem:
            print(f"failed: {name}: {problem}")
            failed += 1
    if arguments.json:
        arguments.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    if arguments.write:
        write(rows, compiler, budgets)
        return 1 if failed else 0
    verdicts = compare(rows, budgets)
    for name, wrong in verdicts:
        print(f"failed: {name} {wrong}" if wrong else f"ok {name}")
    differ = sum(bool(wrong) for _, wrong in verdicts)
    print(f"{len(verdicts) - differ} passed, {failed + differ} failed, {skipped} skipped")
    return 1 if failed + differ else 0


if __name__ == "__main__":
    sys.exit(main())
