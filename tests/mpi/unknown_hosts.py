#!/usr/bin/env python3
"""MPI libraries under names that zerohop does not know: served if they are what it knows, else left alone with a line.

    tests/mpi/unknown_hosts.py

A copy of MPICH under another name, as systems have them; a library that is not MPICH's nor Open MPI's; one with MPICH's
name that is Open MPI's, as version 1.10 was. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "dev"), str(ROOT / "tests")]

from install import EXCHANGE  # noqa: E402
from matrix.script import Tally  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

COMMAND = ROOT / "build" / "bin" / "zerohop"

# What stands for a library: enough for PROGRAM on one rank.
LIBRARY = """
#ifdef OPEN_MPI
int ompi_mpi_comm_world;
#endif
int MPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; return 0; }
int MPI_Comm_size(int comm, int *size) { (void)comm; *size = 1; return 0; }
int MPI_Send(const void *b, int n, int t, int d, int g, int c) {
  (void)b; (void)n; (void)t; (void)d; (void)g; (void)c; return 77;
}
int MPI_Finalize(void) { return 0; }
"""
PROGRAM = """
#include <stdio.h>
int MPI_Init(int *, char ***), MPI_Comm_size(int, int *), MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int);
int main(int argc, char **argv) {
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(0, &size);
  printf("size %d sent %d\\n", size, MPI_Send(&size, 1, 0, 0, 0, 0));
  return MPI_Finalize();
}
"""
UNKNOWN = "is none that zerohop knows"


def compile_c(text: str, target: Path, *words: str, compiler: str = "cc") -> None:
    source = target.with_suffix(".c")
    source.write_text(text)
    subprocess.run([compiler, "-O1", str(source), "-o", str(target), *words], check=True)


def run(command: list[str], **env: str) -> tuple[int, str]:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def stand_in(folder: Path, name: str, *flags: str) -> list[str]:
    """The command that runs PROGRAM with a library of that name."""
    library = folder / name
    compile_c(LIBRARY, library, "-shared", "-fPIC", f"-Wl,-soname,{name}", *flags)
    program = folder / f"with-{name}"
    compile_c(PROGRAM, program, str(library), f"-Wl,-rpath,{folder}")
    return [str(COMMAND), "run", str(program)]


def unknown_is_left_alone(folder: Path) -> str:
    command = stand_in(folder, "libanympi.so.1")
    code, said = run(command)
    if code != 0 or "size 1 sent 77" not in said or said.count(UNKNOWN) != 1:
        return f"exit code {code}: {said}"
    code, said = run(command, ZEROHOP_ENABLE="0")
    return "" if code == 0 and said == "size 1 sent 77\n" else f"switched off, exit code {code}: {said}"


def name_of_another_is_left_alone(folder: Path) -> str:
    code, said = run(stand_in(folder, "libmpi.so.12", "-DOPEN_MPI"))
    return "" if code == 0 and "size 1 sent 77" in said and UNKNOWN in said else f"exit code {code}: {said}"


def renamed_mpich_is_served(folder: Path) -> str:
    host = mpi_hosts.host("mpich")
    old, new = b"libmpi.so.12\0", b"libmpq.so.12\0"
    content = (Path(host.libdir) / "libmpi.so.12").read_bytes()
    (folder / "libmpq.so.12").write_bytes(content.replace(old, new))
    program = folder / "exchange"
    compile_c(EXCHANGE, program, f"-I{host.include}", str(folder / "libmpq.so.12"), f"-Wl,-rpath,{folder}",
              "-Wl,--allow-shlib-undefined")  # fmt: skip
    path = f"{folder}:{host.libdir}:{host.libdir}/mpich"  # where the wheel keeps what its library needs
    code, said = run([*host.mpiexec, "-n", "2", str(COMMAND), "run", str(program)],
                     **{**host.env, "LD_LIBRARY_PATH": path, "ZEROHOP_LOG": "info"})  # fmt: skip
    good = code == 0 and "got 0" in said and "got 1" in said and "inline to" in said and UNKNOWN not in said
    return "" if good else f"exit code {code}: {said}"


def main() -> int:
    if not COMMAND.exists():
        raise SystemExit(f"not built: {COMMAND} (make build)")
    tally = Tally()
    for case in (unknown_is_left_alone, name_of_another_is_left_alone, renamed_mpich_is_served):
        with tempfile.TemporaryDirectory(prefix="zh-hosts-") as folder:
            tally.judge(case.__name__, case(Path(folder)))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
