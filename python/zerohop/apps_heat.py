"""The heat equation on a square by mpi4py and NumPy: one of the programs of `zerohop bench apps`.

    mpiexec -n 2 python apps_heat.py POINTS STEPS FILE

Rows on the ranks, borders by Sendrecv of rows in place, the largest value by Allreduce. The field begins as an
eigenvector of the scheme (explicit Euler, five points), so what it is after any number of steps is known. Leaves one
JSON object in FILE; exit code 1 where the field is wrong.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

TOLERANCE = 1e-11
DIFFUSION = 0.2  # time step by the square of the distance of points; stable below 0.25


def main() -> int:
    n, steps, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    world = MPI.COMM_WORLD
    rank, ranks = world.rank, world.size
    first, last = n * rank // ranks, n * (rank + 1) // ranks
    above = rank - 1 if rank > 0 else MPI.PROC_NULL
    below = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL
    wave = np.sin(np.pi * np.arange(n + 2) / (n + 1))
    wave[-1] = 0
    start = np.outer(wave[first : last + 2], wave)
    now, largest = start.copy(), np.zeros(1)
    now[[0, -1]] = 0
    change = np.empty((last - first, n))
    in_mpi = 0.0
    world.Barrier()
    begin = MPI.Wtime()
    for step in range(steps):
        before = MPI.Wtime()
        world.Sendrecv(now[1], above, 1, now[-1], below, 1)
        world.Sendrecv(now[-2], below, 2, now[0], above, 2)
        in_mpi += MPI.Wtime() - before
        np.add(now[:-2, 1:-1], now[2:, 1:-1], out=change)
        change += now[1:-1, :-2]
        change += now[1:-1, 2:]
        change -= 4 * now[1:-1, 1:-1]
        now[1:-1, 1:-1] += DIFFUSION * change
        if step % 10 == 0:
            mine = np.array([now.max()])
            before = MPI.Wtime()
            world.Allreduce(mine, largest, MPI.MAX)
            in_mpi += MPI.Wtime() - before
    seconds = MPI.Wtime() - begin
    factor = (1 - 8 * DIFFUSION * math.sin(math.pi / 2 / (n + 1)) ** 2) ** steps
    error = world.allreduce(float(np.abs(now[1:-1] - factor * start[1:-1]).max()), MPI.MAX)
    all_s, all_mpi_s, slowest = world.allreduce(seconds), world.allreduce(in_mpi), world.allreduce(seconds, MPI.MAX)
    good = error < TOLERANCE
    if rank == 0:
        share = all_mpi_s / all_s
        out = {"seconds": slowest, "mpi_share": share, "verified": good, "exact": True, "value": [error]}
        path.write_text(json.dumps(out))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
