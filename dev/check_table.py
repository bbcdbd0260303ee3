"""Compares src/mpi/entry/functions.table, and those that it includes, with each host's mpi.h and exported symbols.

Usage: dev/check_table.py [--env build/env] [--library build/lib/libzerohop.so]

Checks, for every host whose header or library is there:
- each listed function is declared by mpi.h, or is on the list of those that zerohop adds to that host;
- the host's library exports both MPI_F and PMPI_F, or the function is on that list;
- nothing by which programs find the host's library is listed;
- libzerohop.so exports exactly MPI_F and PMPI_F of the listed functions.
Exit code 0: all agree; 1: differences, printed; 77: no host is installed.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = {"Get_version", "Get_library_version", "Pcontrol"}
HANDLES = {f"{kind}_{way}" for kind in ("Request", "Message") for way in ("c2f", "f2c", "toint", "fromint")}
C_HANDLES = {name for name in HANDLES if name.endswith(("c2f", "f2c"))}
NEW_IN_41 = {
    "Request_get_status_all", "Request_get_status_any", "Request_get_status_some", "Buffer_flush", "Buffer_iflush",
    "Comm_attach_buffer", "Comm_attach_buffer_c", "Comm_detach_buffer", "Comm_detach_buffer_c", "Comm_flush_buffer",
    "Comm_iflush_buffer",
}  # fmt: skip

# environment, header, library
HOSTS = [
    ("mpich", "mpi.h", "libmpi.so.12"),
    ("mpich", "mpi_abi.h", "libmpi_abi.so.1"),
    ("openmpi", "mpi.h", "libmpi.so.40"),
    ("impi", "mpi.h", "libmpi.so.12"),
    ("impi", "mpi_abi.h", "libmpi_abi.so.1"),
]


def read_tables(folder: Path = ROOT / "src/mpi/entry") -> list[str]:
    """Names of the functions in the tables of `folder`, as their macros make them; each should be there once."""
    names = []
    text = "".join(path.read_text() for path in sorted(folder.glob("*.table")))
    for macro, name, nonblocking in re.findall(r"^ZH_(\w+)\((\w+)(?:, (\w+), \()?", text, re.MULTILINE):
        forms = [name, nonblocking, f"{name}_init"] if macro == "COLLECTIVE" else [name]
        suffixes = ("", "_c") if macro in ("C", "COLLECTIVE") else ("",)
        names += [form + suffix for form in forms for suffix in suffixes]
    return names


def added_by_zerohop(environment: str, header: str, name: str) -> bool:
    """Functions that this host lacks and zerohop implements."""
    if environment == "openmpi":
        return name.endswith("_c") or name in NEW_IN_41 or name in HANDLES - C_HANDLES
    if environment == "impi" or header == "mpi_abi.h":
        return name in C_HANDLES
    return False


def exported(library: Path) -> set[str]:
    """Defined dynamic symbols that begin with MPI_ or PMPI_."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in out.splitlines() if re.search(r"\sP?MPI_\w+$", line)}


def check_host(environment: str, header: Path, library: Path, names: list[str]) -> list[str]:
    """Differences between the table and one host."""
    text = header.read_text(errors="replace")
    if header.name == "mpi.h" and (proto := header.with_name("mpi_proto.h")).exists():
        text += proto.read_text(errors="replace")
    symbols = exported(library)
    wrong = []
    for name in names:
        if added_by_zerohop(environment, header.name, name):
            continue
        if not re.search(rf"\bP?MPI_{name}\s*\(", text):
            wrong.append(f"{header}: MPI_{name} is not declared")
        for symbol in (f"MPI_{name}", f"PMPI_{name}"):
            # Conversions of MPICH are macros for C programs; the library has the functions for Fortran.
            if symbol not in symbols and name not in HANDLES:
                wrong.append(f"{library}: lacks {symbol}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, default=ROOT / "build/env")
    parser.add_argument("--library", type=Path, default=ROOT / "build/lib/libzerohop.so")
    args = parser.parse_args()

    names = read_tables()
    wrong = [f"functions.table: {name} is listed twice" for name in sorted({n for n in names if names.count(n) > 1})]
    wrong += [f"functions.table: {n} must not be taken over" for n in names if n in FORBIDDEN or n.startswith("Abi_")]
    checked = 0
    for environment, header, library in HOSTS:
        header_path = args.env / environment / "include" / header
        library_path = args.env / environment / "lib" / library
        if not header_path.exists() or not library_path.exists():
            print(f"skip {environment} {header}: not installed")
            continue
        wrong += check_host(environment, header_path, library_path, names)
        checked += 1
    if args.library.exists():
        mine = exported(args.library)
        want = {f"{p}MPI_{name}" for name in names for p in ("", "P")}
        wrong += [f"{args.library}: lacks {s}" for s in sorted(want - mine)]
        wrong += [f"{args.library}: exports {s}" for s in sorted(mine - want)]
    else:
        print(f"skip {args.library}: not built")
    for line in wrong:
        print(line)
    if checked == 0:
        return 77
    print(f"{len(names)} functions, {checked} hosts, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
