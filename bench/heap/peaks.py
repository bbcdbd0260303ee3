#!/usr/bin/env python3
"""Peaks of memory of whole jobs, as a memory cgroup counts them: the host MPI alone beside zerohop.

    bench/heap/peaks.py [--host NAME] [--limit MIB] [--rounds N] [--only WORD]...

Each program, two ranks in Python, runs in a cgroup with a limit of 1 GiB, as a container has. Before its own work it
sends 8 MiB back and forth, so that memory is shared. Programs that stay below the limit alone must do so under zerohop;
a table shows the medians of the peaks. Needs root and a memory controller (version 1 or 2). Exit code 1: a job was
killed or failed that ends alone.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "dev"))

import hosts  # noqa: E402

PRELUDE = """
import subprocess
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
other = 1 - world.rank
def swap(a, b):
    world.Sendrecv(a, other, 0, b, other, 0)
a = np.ones(8 << 20, dtype='u1')
b = np.empty_like(a)
for turn in range(6): swap(a, b)
"""
REWRITE = "\nfor v in (2, 3):\n    subprocess.run(['true'], preexec_fn=lambda: None)\n    x[:] = v\n"
PROGRAMS = {
    "messages only": "",
    "250 MiB rewritten after each of two forks": "x = np.ones(250 << 20, dtype='u1')" + REWRITE,
    "2 x 150 MiB that were sent, rewritten after each of two forks": """
x = np.ones(150 << 20, dtype='u1')
y = np.empty_like(x)
for turn in range(4): swap(x, y)
for v in (2, 3):
    subprocess.run(['true'], preexec_fn=lambda: None)
    x[:] = v
    y[:] = v
""",
    "6 GiB read that nobody has written": "assert bytes(3 << 30).count(1) == 0\n"
    "assert np.zeros(3 << 30, dtype='u1')[::4096].sum() == 0\n",
    "realloc of 200 to 260 MiB": """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.realloc.argtypes = [ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t]
p = libc.malloc(200 << 20)
ctypes.memset(p, 1, 200 << 20)
p = libc.realloc(p, 260 << 20)
ctypes.memset(p, 2, 260 << 20)
""",
    "np.ones(10**13) is a MemoryError": """
try:
    np.ones(10**13, dtype='u1')
    raise SystemExit('there was memory')
except MemoryError:
    pass
""",
    "200 times 2 x 20 MiB made, sent, freed": """
for turn in range(200):
    x = np.ones(20 << 20, dtype='u1')
    y = np.empty_like(x)
    swap(x, y)
""",
}
END = "\nworld.Barrier()\n"


class Cgroup:
    """A memory cgroup with a limit; gone at the end."""

    def __init__(self, limit_bytes: int) -> None:
        first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        self.old = (first / "memory.limit_in_bytes").exists()
        self.folder = (first if self.old else second) / "zerohop-peaks"
        self.peak = self.folder / ("memory.max_usage_in_bytes" if self.old else "memory.peak")
        try:
            self.folder.mkdir(exist_ok=True)
            limit = self.folder / ("memory.limit_in_bytes" if self.old else "memory.max")
            limit.write_text(str(limit_bytes))
        except OSError as problem:
            raise SystemExit(f"no memory cgroup can be made here: {problem}") from problem

    def run(self, command: list[str], env: dict[str, str]) -> tuple[bool, float]:
        """Whether it ended well, and the peak in MiB."""
        if self.old:
            (self.folder / "memory.force_empty").write_text("0")
            self.peak.write_text("0")
        enter = ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs; exec "$@"', "sh"]
        process = subprocess.run([*enter, *command], env=env, capture_output=True, timeout=300, check=False)
        return process.returncode == 0, int(self.peak.read_text()) / 2**20

    def remove(self) -> None:
        self.folder.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="mpich", metavar="NAME", help="the MPI library (default: mpich)")
    parser.add_argument("--limit", type=int, default=1024, metavar="MIB", help="of the cgroup (default: 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each (default: 3)")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="programs whose name has this")
    arguments = parser.parse_args()
    host = next((h for h in hosts.hosts() if h.name == arguments.host), None)
    if host is None:
        raise SystemExit(f"no host {arguments.host} here (python3 dev/hosts.py)")
    cgroup, bad = Cgroup(arguments.limit << 20), 0
    print(f"{'peak in MiB, median':64}{'alone':>8}{'zerohop':>9}")
    try:
        for name, text in PROGRAMS.items():
            if arguments.only and not any(word in name for word in arguments.only):
                continue
            peaks: dict[bool, list[float]] = {False: [], True: []}
            ended: dict[bool, int] = {False: 0, True: 0}
            for _ in range(arguments.rounds):
                for zerohop in (False, True):
                    start = [str(ROOT / "build" / "bin" / "zerohop"), "run"] if zerohop else []
                    well, peak = cgroup.run(
                        host.command(2, *start, host.python, "-c", PRELUDE + text + END), host.environment()
                    )
                    peaks[zerohop].append(peak)
                    ended[zerohop] += well
            worse = ended[True] < ended[False]
            bad += worse
            note = f"  ended well: {ended[False]}, {ended[True]}" if min(ended.values()) < arguments.rounds else ""
            print(
                f"{name:64}{statistics.median(peaks[False]):8.0f}{statistics.median(peaks[True]):9.0f}{note}",
                flush=True,
            )
    finally:
        cgroup.remove()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
