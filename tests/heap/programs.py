#!/usr/bin/env python3
"""Real programs of others with the heap on, off and without zerohop: their results must be the same, bit for bit.

Zerohop's reductions combine in another order than the host's, so the last bits of sums differ: with the host's
collectives the heap is compared with no zerohop at all, with zerohop's own the heap on with the heap off.

    tests/heap/programs.py [--ranks N]... [--program lammps|hpcc]

LAMMPS compares every atom's final position and velocity, HPCC its residuals and error counts. Both are Debian's, built
against Open MPI, which dev/setup full unpacks to build/env/programs; they run under the wheel of Open MPI. With the
heap on a program must have been seen with memory in it. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from support import LIBRARY, ROOT, environment, heap_bytes, processes_of

sys.path[:0] = [str(ROOT / "dev"), str(ROOT / "python")]

from zerohop.apps_programs import LAMMPS_INPUT, hpcc_input  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

PROGRAMS = mpi_hosts.ENV_DIR / "programs" / "usr"
TIMEOUT_S = 240
# Name: heap, ZEROHOP_COLLECTIVES, and the run that must have the same results.
MODES = {
    "bare": ("bare", "0", None),
    "off": ("off", "0", "bare"),
    "on": ("on", "0", "bare"),
    "off, own collectives": ("off", "1", None),
    "on, own collectives": ("on", "1", "off, own collectives"),
}

DUMP = "write_dump all custom final.txt id x y z vx vy vz modify sort id format float %.17g\n"


@dataclasses.dataclass
class Program:
    name: str
    binary: Path
    arguments: tuple[str, ...]
    prepare: Callable[[Path, int], None]
    results: Callable[[Path], str]


def prepare_lammps(folder: Path, ranks: int) -> None:
    """More ranks than processors map messages above 64 KiB only, so the box is large enough for such ones."""
    (folder / "in.melt").write_text(LAMMPS_INPUT.format(box=14 if ranks <= 2 else 22, steps=60) + DUMP)


def lammps_results(folder: Path) -> str:
    return (folder / "final.txt").read_text()


def prepare_hpcc(folder: Path, ranks: int) -> None:
    (folder / "hpccinf.txt").write_text(hpcc_input(mpi_hosts.ENV_DIR, ranks, 700))


def hpcc_results(folder: Path) -> str:
    """What does not depend on the clock: residuals, verdicts, error counts."""
    text = (folder / "hpccoutf.txt").read_text()
    kept = [line for line in text.splitlines() if re.search(r"\|\|Ax-b\|\||PASSED|FAILED|Found \d+ errors", line)]
    # PTRANS prints times in the lines of its verdicts.
    kept = [line for line in kept if not line.startswith(("WALL", "CPU"))]
    if "Success=1" not in text or len(kept) < 3:
        raise ValueError(f"HPCC did not end well: {text[-300:]}")
    return "\n".join(kept)


ALL = (
    Program("lammps", PROGRAMS / "bin" / "lmp", ("-in", "in.melt", "-log", "none"), prepare_lammps, lammps_results),
    Program("hpcc", PROGRAMS / "bin" / "hpcc", (), prepare_hpcc, hpcc_results),
)


def run(program: Program, host, ranks: int, mode: str, folder: Path) -> tuple[str, int]:
    """The results, and the most memory that one of the processes was seen to have in its heap."""
    folder.mkdir()
    program.prepare(folder, ranks)
    libraries = PROGRAMS / "lib" / "x86_64-linux-gnu"
    heap, collectives, _ = MODES[mode]
    env = environment(heap, launched=False) | host.env | {"ZEROHOP_COLLECTIVES": collectives}
    if heap == "on":  # at the second use, and mapped however short: by default these programs' messages are too small
        env |= {"ZEROHOP_HEAP": "1", "ZEROHOP_CONFIG": "single_copy=16K"}
    env["LD_LIBRARY_PATH"] = ":".join([str(libraries), str(libraries / "blas"), env["LD_LIBRARY_PATH"]])
    env["OPENBLAS_NUM_THREADS"] = env["OMP_NUM_THREADS"] = "1"
    env["ZH_TEST_MARK"] = mark = f"mark-{uuid.uuid4()}"
    preload = env.pop("LD_PRELOAD", "")
    command = host.command(ranks, "env", f"LD_PRELOAD={preload}", str(program.binary), *program.arguments)
    most, deadline = 0, time.monotonic() + TIMEOUT_S
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        while process.poll() is None:
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise ValueError(f"did not end within {TIMEOUT_S} s")
            most = max([most, *map(heap_bytes, processes_of(mark))])
            time.sleep(0.1)
    if process.returncode != 0:
        raise ValueError(f"exit code {process.returncode}: {(folder / 'output').read_text()[-500:]}")
    return program.results(folder), most


def check(program: Program, host, ranks: int, folder: Path) -> list[str]:
    """What is wrong; empty when all is well."""
    wrong, results, in_heap = [], {}, {}
    for mode in MODES:
        try:
            results[mode], in_heap[mode] = run(program, host, ranks, mode, folder / mode)
        except (ValueError, OSError) as problem:
            wrong.append(f"{mode}: {problem}")
    for mode, (heap, _, same) in MODES.items():
        if in_heap.get(mode) == 0 and heap == "on":
            wrong.append(f"{mode}: no process was seen with memory in the heap")
        if same not in results or mode not in results or results[mode] == results[same]:
            continue
        pairs = zip(results[same].splitlines(), results[mode].splitlines(), strict=False)
        first = next(((a, b) for a, b in pairs if a != b), ("another number of lines", ""))
        wrong.append(f"{mode}: other results than {same}, first {first[0]!r}, now {first[1]!r}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, action="append", help="ranks of a job (default 2 and 4)")
    parser.add_argument("--program", choices=[p.name for p in ALL], help="only this one")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    hosts = {h.name: h for h in mpi_hosts.hosts()}
    for program in ALL:
        if arguments.program not in (None, program.name):
            continue
        if not program.binary.exists() or "openmpi" not in hosts:
            missing = program.binary if "openmpi" in hosts else "Open MPI"
            print(f"skip {program.name}: no {missing} (dev/setup full)", flush=True)
            skipped += 1
            continue
        for ranks in arguments.ranks or (2, 4):
            with tempfile.TemporaryDirectory(prefix="zh-heap-programs-") as name:
                wrong = check(program, hosts["openmpi"], ranks, Path(name))
            passed += not wrong
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok'} {program.name}, {ranks} ranks", flush=True)
            for what in wrong:
                print(f"failed: {program.name}, {ranks} ranks, {what}")
    if not Path(LIBRARY).exists():
        raise SystemExit(f"not built: {LIBRARY} (make build)")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
