"""The MPI hosts that dev/setup puts into build/env: where each keeps its parts and how a job is started under it.

Used by the tests, the demo and the build; knows nothing of zerohop itself. `python3 dev/hosts.py` prints the table,
`--json` the same for programs, `--check` starts jobs of two and of four ranks under each and says how it went.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV_DIR = Path(os.environ.get("ZH_ENV_DIR", ROOT / "build" / "env"))


@dataclasses.dataclass(frozen=True)
class Host:
    """One MPI library under one binary interface.

    name     unique: mpich, openmpi, impi, mpich-abi, impi-abi
    abi      mpich | ompi | abi: which mpi.h its programs were compiled against
    mpicc    its C compiler wrapper
    mpiexec  start of the command line of a job; append -n <ranks> <program>
    env      variables to set for the launcher and the ranks, on top of os.environ
    python   interpreter that has mpi4py for this host (none of the wheels speaks the standard ABI: then it runs the
    plain one)
    include  folder of mpi.h
    libdir   folder of its libmpi
    soname   DT_SONAME of the library that its programs load
    """

    name: str
    abi: str
    mpicc: str
    mpiexec: list[str]
    env: dict[str, str]
    python: str
    include: str
    libdir: str
    soname: str

    def command(self, ranks: int, *program: str) -> list[str]:
        """Command line that starts `program` on `ranks` ranks."""
        return [*self.mpiexec, "-n", str(ranks), *program]

    def environment(self, **extra: str) -> dict[str, str]:
        """os.environ with this host's variables and `extra`."""
        return {**os.environ, **self.env, **extra}


def _host(name: str, env_name: str, abi: str, mpicc: str, soname: str, env: dict[str, str]) -> Host:
    prefix = ENV_DIR / env_name
    return Host(
        name=name,
        abi=abi,
        mpicc=str(prefix / "bin" / mpicc),
        mpiexec=[str(prefix / "bin" / "mpiexec")],
        # Programs that were not built here (IMB, NetPIPE) carry no path to the host's library.
        env={"LD_LIBRARY_PATH": str(prefix / "lib"), **env},
        python=str(prefix / "bin" / "python"),
        include=str(prefix / "include"),
        libdir=str(prefix / "lib"),
        soname=soname,
    )


# Open MPI refuses root and more ranks than cores unless told; ranks must not be bound on a machine that others share.
_OPENMPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
_OPENMPI_4_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


def hosts(include_missing: bool = False) -> list[Host]:
    """All hosts that are installed (or all known ones), the plain ones first."""
    impi_env = {"I_MPI_FABRICS": "shm", "I_MPI_ROOT": str(ENV_DIR / "impi")}
    known = [
        _host("mpich", "mpich", "mpich", "mpicc", "libmpi.so.12", {}),
        _host("openmpi", "openmpi", "ompi", "mpicc", "libmpi.so.40", _OPENMPI_ENV),
        _host("impi", "impi", "mpich", "mpicc", "libmpi.so.12", impi_env),
        _host("mpich-abi", "mpich", "abi", "mpicc_abi", "libmpi_abi.so.1", {}),
        _host("impi-abi", "impi", "abi", "mpicc_abi", "libmpi_abi.so.1", impi_env),
    ]
    return [h for h in known if include_missing or (Path(h.mpicc).exists() and Path(h.mpiexec[0]).exists())]


def older_hosts() -> list[Host]:
    """Libraries older than MPI 4, whether installed or not. Their programs are those of the hosts of today."""
    impi_env = {"I_MPI_FABRICS": "shm", "I_MPI_ROOT": str(ENV_DIR / "impi-2021.10")}
    return [
        _host("openmpi-4.1", "openmpi-4.1", "ompi", "mpicc", "libmpi.so.40", _OPENMPI_4_ENV),
        _host("mpich-3.4", "mpich-3.4", "mpich", "mpicc", "libmpi.so.12", {}),
        _host("impi-2021.10", "impi-2021.10", "mpich", "mpicc", "libmpi.so.12", impi_env),
    ]


def distribution_hosts() -> list[Host]:
    """Debian's and Ubuntu's packages of this machine, whether installed or not; see can_compile()."""

    def of(family: str, abi: str, soname: str, env: dict[str, str]) -> Host:
        mpicc, mpiexec = f"/usr/bin/mpicc.{family}", f"/usr/bin/mpiexec.{family}"
        return Host(f"debian-{family}", abi, mpicc, [mpiexec], env, "/usr/bin/python3", "", "", soname)

    return [
        of("mpich", "mpich", "libmpich.so.12", {}),
        of("openmpi", "ompi", "libmpi.so.40", _OPENMPI_4_ENV),
    ]


def can_compile(host: Host) -> bool:
    """Whether the compiler wrapper is there, and mpi.h too, which distributions have in a package of its own."""
    if not Path(host.mpicc).exists() or not Path(host.mpiexec[0]).exists():
        return False
    command = [host.mpicc, "-include", "mpi.h", "-E", "-x", "c", "/dev/null"]
    return subprocess.run(command, env=host.environment(), capture_output=True).returncode == 0


def host(name: str) -> Host:
    """The host called `name`; KeyError with the known names when it is not installed."""
    found = {h.name: h for h in hosts()}
    if name not in found:
        raise KeyError(f"no MPI host {name!r} here (installed: {', '.join(found) or 'none; run dev/setup'})")
    return found[name]


_HELLO = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ranks %d sum %d\\n", size, sum);
  MPI_Finalize();
  return 0;
}
"""


def check() -> int:
    """Compiles and runs one program under every host; returns the number of failures."""
    failures = 0
    for h in hosts():
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "hello.c", Path(folder) / "hello"
            source.write_text(_HELLO)
            built = subprocess.run(
                [h.mpicc, str(source), "-o", str(program)], env=h.environment(), capture_output=True, text=True
            )
            for ranks in (2, 4):
                said = built.stderr.strip()
                if built.returncode == 0:
                    ran = subprocess.run(
                        h.command(ranks, str(program)), env=h.environment(), capture_output=True, text=True, timeout=120
                    )
                    said = ran.stdout.strip() or ran.stderr.strip()
                good = said == f"ranks {ranks} sum {ranks * (ranks - 1) // 2}"
                failures += not good
                print(f"{h.name:10} {ranks} ranks: {'ok' if good else 'FAILED: ' + said}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--check", action="store_true", help="run a small job under each host")
    parser.add_argument("--get", nargs=2, metavar=("HOST", "FIELD"), help="print one field, for shell scripts")
    arguments = parser.parse_args()
    if arguments.check:
        return 1 if check() or not hosts() else 0
    if arguments.get:
        value = getattr(host(arguments.get[0]), arguments.get[1])
        print(value if isinstance(value, str) else json.dumps(value))
    elif arguments.json:
        print(json.dumps([dataclasses.asdict(h) for h in hosts()], indent=2))
    else:
        for h in hosts():
            print(
                f"{h.name}\n  abi {h.abi} ({h.soname})\n  mpicc {h.mpicc}\n"
                f"  mpiexec {' '.join(h.mpiexec)} -n <ranks> <program>"
            )
            print(f"  include {h.include}\n  libdir {h.libdir}\n  python {h.python}")
            print("  env " + " ".join(f"{k}={v}" for k, v in h.env.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
