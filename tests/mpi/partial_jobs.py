#!/usr/bin/env python3
"""Jobs of which only some ranks run under this build of zerohop: they run on the host wholly, and one line says so.

    tests/mpi/partial_jobs.py [--host NAME]... [--case WORD] [--repeat N]

For each host that is installed: jobs where the first, the last, a middle or several ranks run without zerohop, where
one is switched off, has another build or another binary interface, and jobs where all take part. Each must end by
itself with the right sums, and the line must name the ranks. Closing line: `N passed, N failed, N skipped`; skipped is
what is not installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "dev"))

from machines import namespaces  # noqa: E402
from machines.launcher import libfabric  # noqa: E402
from machines.placement import Placement  # noqa: E402
from matrix.launch import job  # noqa: E402
from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

BUILD = ROOT / "build"
TIMEOUT_S = 60  # of a job that takes a second or two: it hangs
SERVED = "inline to"  # of ZEROHOP_LOG=info, by every rank that zerohop serves
LINE = "zerohop: everything stays with the MPI library: "

PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  enum { N = 1 << 16 };
  int rank, size, sum = 0, wrong = 0;
  int *out = malloc(N * sizeof(int)), *in = malloc(N * sizeof(int));
#ifdef SESSION
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
#endif
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < N; ++i) out[i] = rank + i;
  MPI_Sendrecv(out, N, MPI_INT, right, 0, in, N, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < N; ++i) wrong += in[i] != left + i;
  char behind[100] = "";  /* what the standard error is, should it have been closed */
  if (readlink("/proc/self/fd/2", behind, sizeof(behind) - 1) > 0) wrong += strstr(behind, "zerohop") != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %d wrong %d\\n", sum, wrong);
#ifdef SESSION
  MPI_Session_finalize(&session);
#endif
  MPI_Finalize();
  return 0;
}
"""


@dataclasses.dataclass(frozen=True)
class Host:
    """One host; `compilers` by the letter of the rank's program (see Case)."""

    name: str
    mpiexec: list[str]
    env: dict[str, str]
    compilers: dict[str, str]
    hydra: bool
    installed: bool


@dataclasses.dataclass(frozen=True)
class Case:
    """A job. Letters of `ranks`: z under zerohop, - without, 0 switched off, f preloaded and switched off by a file,
    c with its standard error closed, b another build, a another binary interface, s with a session made before
    MPI_Init. `said`: behind LINE, or None where zerohop serves all ranks."""

    name: str
    ranks: str
    said: str | None
    nodes: int = 0  # on hydra: with so many of the launcher's proxies
    machines: int = 0  # on today's Open MPI: on so many, with memory and a network of their own


CASES = [
    Case("all", "zzz", None),
    Case("all, two levels of the tree", "z" * 12, None),
    Case("all, over two launchers", "zzzz", None, 2),
    Case("all, after a session", "sss", None),
    Case("after a session", "s-s", "rank 1 runs without zerohop"),
    Case("first", "-zz", "rank 0 runs without zerohop"),
    Case("middle", "z-z", "rank 1 runs without zerohop"),
    Case("last", "zz-", "rank 2 runs without zerohop"),
    Case("all but one", "--z--", "ranks 0, 1, 3, 4 run without zerohop"),
    Case("several", "z-z---", "ranks 1, 3-5 run without zerohop"),
    Case("below another branch", "zzzzzzzzzz-z", "rank 10 runs without zerohop"),
    Case("between branches", "z-zzzzzzzzzz", "rank 1 runs without zerohop"),
    Case("over two launchers", "zzz-", "rank 3 runs without zerohop", 2),
    Case("all, over two machines", "zzzz", None, machines=2),
    Case("over two machines", "zz-z", "rank 2 runs without zerohop", machines=2),
    Case("switched off", "zz0", "rank 2 runs without zerohop"),
    Case("switched off by a file", "zzf", "rank 2 runs without zerohop"),
    Case("all, one with its standard error closed", "zzc", None),
    Case("another build", "zbz", "rank 1 runs another build of it"),
    Case("two builds", "zzb-b", "rank 3 runs without zerohop, ranks 2, 4 run another build of it"),
    Case("another binary interface", "zaz", "rank 1 runs another build of it"),
]


def known_hosts() -> list[Host]:
    found = []
    today = {h.name: h for h in mpi_hosts.hosts(include_missing=True)}
    by_abi = {"mpich": today["mpich"], "ompi": today["openmpi"]}
    for h in [today["mpich"], today["openmpi"], today["impi"], *mpi_hosts.older_hosts()]:
        own = Path(h.mpicc).exists()
        compilers = {"z": h.mpicc if own else by_abi[h.abi].mpicc}
        if h.name in ("mpich", "openmpi"):  # others are older, or refuse MPI_Init after a session
            compilers["s"] = h.mpicc
        if h.name + "-abi" in today:
            compilers["a"] = today[h.name + "-abi"].mpicc
        installed = Path(h.mpiexec[0]).exists() and Path(compilers["z"]).exists()
        found.append(Host(h.name, h.mpiexec, h.env, compilers, h.abi == "mpich", installed))
    for h in mpi_hosts.distribution_hosts():
        found.append(Host(h.name, h.mpiexec, h.env, {"z": h.mpicc}, h.abi == "mpich", mpi_hosts.can_compile(h)))
    return found


def make_another_build(folder: Path) -> None:
    """A copy whose libraries have other build ids."""
    for part in ("bin", "lib"):
        (folder / part).mkdir(parents=True)
    shutil.copy(BUILD / "bin" / "zerohop", folder / "bin")
    for library in (BUILD / "lib").glob("libzerohop*.so"):
        notes = subprocess.run(["readelf", "-nW", str(library)], capture_output=True, text=True, check=True).stdout
        text = next((w.split()[-1] for w in notes.splitlines() if "Build ID:" in w), "")
        content = library.read_bytes()
        old = bytes.fromhex(text)
        if len(old) < 8 or content.count(old) != 1:
            raise SystemExit(f"{library} has no build id")
        (folder / "lib" / library.name).write_bytes(content.replace(old, old[::-1]))


def make_ssh(path: Path) -> None:
    """What a launcher takes for ssh: runs the command here."""
    path.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nexec sh -c "$*"\n')
    path.chmod(0o755)


def run(command: list[str], env: dict[str, str]) -> tuple[int | None, str]:
    """Exit code (None: it did not end) and output of a job, which is gone afterwards."""
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = job.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(job.pid, signal.SIGTERM)  # the launcher takes its ranks along
            try:
                job.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        out.seek(0)
        return code, out.read()


@contextlib.contextmanager
def on_machines(host: Host, case: Case, programs: dict[str, Path], folder: Path) -> Iterator[tuple[list[str], dict]]:
    """Command and environment of a job over machines, whose ranks find out by themselves what they run under."""
    chooser = folder / "chooser"
    arms = [f"{i}) exec {BUILD}/bin/zerohop run {programs['z']};;" for i, c in enumerate(case.ranks) if c == "z"]
    chooser.write_text("\n".join(["#!/bin/sh", 'case "$PMIX_RANK" in', *arms, "esac", f"exec {programs['z']}", ""]))
    chooser.chmod(0o755)
    today = next(h for h in mpi_hosts.hosts() if h.name == host.name)
    with job(today, Placement(len(case.ranks), machines=case.machines), [str(chooser)]) as (command, variables):
        yield command, today.environment(**{**variables, "ZEROHOP_LOG": "info"})


def wrong_with(host: Host, case: Case, programs: dict[str, Path], folder: Path) -> str:
    """ "" or what is wrong."""
    zerohop = [str(BUILD / "bin" / "zerohop"), "run"]
    before = {
        "z": zerohop,
        "a": zerohop,
        "s": zerohop,
        "-": [],
        "0": ["env", "ZEROHOP_ENABLE=0", *zerohop],
        "f": ["env", f"ZEROHOP_CONFIG={folder}/off", f"LD_PRELOAD={BUILD}/lib/libzerohop.so"],
        "c": ["sh", "-c", 'exec "$0" "$@" 2>&-', *zerohop],
        "b": [str(folder / "other" / "bin" / "zerohop"), "run"],
    }
    command = [*host.mpiexec]
    env = {**os.environ, **host.env, "ZEROHOP_LOG": "info"}
    if case.nodes:
        nodes = ",".join(f"node{i}" for i in range(case.nodes))
        command += ["-launcher", "ssh", "-launcher-exec", str(folder / "ssh"), "-hosts", nodes]
        command += ["-ppn", str(len(case.ranks) // case.nodes)]
        # For Intel MPI, whose shm alone is for one node.
        env |= {"I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_LIBRARY": libfabric(), "FI_PROVIDER": "tcp"}
    for i, letter in enumerate(case.ranks):
        program = programs.get(letter, programs["s" if "s" in case.ranks else "z"])
        command += [*([":"] if i else []), "-n", "1", *before[letter], str(program)]
    if case.machines:
        with on_machines(host, case, programs, folder) as (command, env):
            code, said = run(command, env)
    else:
        code, said = run(command, env)
    n = len(case.ranks)
    lines = [line[line.index(LINE) + len(LINE) :].strip() for line in said.splitlines() if LINE in line]
    if code is None:
        return f"it hangs: {said[-1000:]}"
    if code != 0 or f"sum {n * (n - 1) // 2} wrong 0" not in said:
        return f"exit code {code}: {said[-1000:]}"
    if lines != ([] if case.said is None else [case.said]):
        return f"it says {lines}: {said[-1000:]}"
    return "" if (SERVED in said) == (case.said is None) else f"served: {SERVED in said}: {said[-1000:]}"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--case", default="", help="only cases whose name contains this word")
    parser.add_argument("--repeat", type=int, default=1, help="run each case so often")
    arguments = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="zh-partial-") as name:
        folder = Path(name)
        make_another_build(folder / "other")
        make_ssh(folder / "ssh")
        (folder / "off").write_text("ENABLE=0\n")
        source = folder / "program.c"
        source.write_text(PROGRAM)
        for host in known_hosts():
            if arguments.host and host.name not in arguments.host:
                continue
            if not host.installed:
                tally.skip(host.name, "not installed")
                continue
            programs = {}
            for letter, compiler in host.compilers.items():
                programs[letter] = folder / f"{host.name}-{letter}"
                flags = ["-DSESSION"] if letter == "s" else []
                subprocess.run([compiler, *flags, str(source), "-o", str(programs[letter])], check=True)
            for case in CASES:
                impossible = any(c in "as" and c not in programs for c in case.ranks) or (case.nodes and not host.hydra)
                impossible = impossible or (case.machines and (host.name != "openmpi" or namespaces.why_not()))
                if arguments.case not in case.name or impossible:
                    continue
                wrong = ""
                for _ in range(arguments.repeat):
                    wrong = wrong or wrong_with(host, case, programs, folder)
                tally.judge(f"{host.name}, {case.name}", wrong)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
