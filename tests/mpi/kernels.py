#!/usr/bin/env python3
"""Jobs over machines with a kernel each: ranks of one machine start together, all ranks of the job come to one end.

    tests/mpi/kernels.py [--host NAME]... [--build FOLDER]

The machines are made of namespaces and say that their kernels differ, so that the start is shared out among them as on
real ones. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "dev"))

from machines import launcher, namespaces  # noqa: E402
from machines.placement import Placement  # noqa: E402
from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

TIMEOUT_S = 120
LINE = "zerohop: everything stays with the MPI library: "
SERVED = "inline to"  # of ZEROHOP_LOG=info, by every rank that zerohop serves

PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, sum = 0, got = -1;
  MPI_Comm twin;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Comm_rank(twin, &rank);
  MPI_Comm_size(twin, &size);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, twin,
               MPI_STATUS_IGNORE);
  MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, twin);
  if (rank == 0) printf("sum %d\\n", sum);
  MPI_Comm_free(&twin);
  MPI_Finalize();
  return 0;
}
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A job; `second` are variables of the second machine's ranks. `said`: behind LINE, "" where all are served."""

    name: str
    placement: str
    second: str = ""
    said: str = ""


CASES = [
    Case("in blocks", "4@2"),
    Case("dealt out in turn", "4@2c"),
    Case("three machines", "6@3"),
    Case("one without collectives", "4@2", "ZEROHOP_COLLECTIVES=0"),
    Case("one without a segment", "4@2", "ZEROHOP_CONFIG=segment=file,folder=/proc/none", "rank 2: making a file"),
    Case("other pretended nodes on one", "4@2", "ZEROHOP_CONFIG=node_ranks=1", "node_ranks of ZEROHOP_CONFIG differs"),
]


def wrong_with(host, case: Case, program: Path, build: Path) -> str:
    """What is wrong, or nothing."""
    second = f'[ "$(hostname)" = zh-node1 ] && export {case.second}; ' if case.second else ""
    start = [
        "sh",
        "-c",
        f'{second}export ZEROHOP_LOG=info LD_PRELOAD={build}/lib/libzerohop.so; exec "$0"',
        str(program),
    ]
    placement = Placement.parse(case.placement)
    with launcher.job(host, placement, *start, own_kernels=True) as (command, variables):
        try:
            done = subprocess.run(command, env=host.environment(**variables), timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
        except subprocess.TimeoutExpired as hang:
            return f"it hangs: {str(hang.stdout)[-1000:]}"
    said, n = done.stdout, placement.ranks
    lines = [line[line.index(LINE) + len(LINE) :] for line in said.splitlines() if LINE in line]
    if done.returncode != 0 or f"sum {n * (n - 1) // 2}" not in said:
        return f"exit code {done.returncode}: {said[-1000:]}"
    if not case.said:
        served = said.count(f" of {placement.most_per_machine()} on its node, {placement.machines} nodes")
        return "" if served == n and SERVED in said and not lines else f"{served} ranks are served: {said[-1000:]}"
    return "" if len(lines) == 1 and lines[0].startswith(case.said) and SERVED not in said else f"it says {lines}"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder with lib/libzerohop.so")
    arguments = parser.parse_args()
    tally = Tally()
    if refusal := namespaces.why_not():
        tally.skip("all", refusal)
        return tally.close()
    with tempfile.TemporaryDirectory(prefix="zh-kernels-") as name:
        source = Path(name) / "program.c"
        source.write_text(PROGRAM)
        for host in mpi_hosts.hosts():
            if arguments.host and host.name not in arguments.host:
                continue
            if refusal := launcher.why_not(host):
                tally.skip(host.name, refusal)
                continue
            program = Path(name) / host.name
            subprocess.run([host.mpicc, str(source), "-o", str(program)], check=True)
            for case in CASES:
                tally.judge(f"{host.name}, {case.name}", wrong_with(host, case, program, arguments.build))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
