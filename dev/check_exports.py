#!/usr/bin/env python3
"""Checks that the preloaded libraries are safe guests in a program that is not ours.

For libzerohop.so and the per-ABI modules libzerohop-*.so beside it (in build/lib, or --lib <folder>):
- exported: for libzerohop.so exactly MPI_F and PMPI_F of the tables in src/mpi/entry, the families of
  malloc and madvise for the shared heap, PMIx_Commit (and zh_ names); for a module zh_ names only. Never
  the functions by which programs find the host's library (MPI_Get_version and the like).
- undefined: no MPI or Open MPI symbol, strong or weak: the host is found at run time, and a process without MPI must
  start.
- no C++ runtime visible, and nothing needed but libc's own libraries.
- no symbol of a glibc newer than 2.28, in the command ../bin/zerohop and its tools too.
- preloading libzerohop.so into a program without MPI changes nothing, also with LD_BIND_NOW.

Prints what is wrong, exits 1 on any. `--self-test` builds libraries with planted faults and proves that each is found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check_table import ROOT, read_tables

FAMILIES = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "free_sized", "free_aligned_sized", "malloc_trim",
    "madvise", "mmap", "mmap64", "munmap", "mremap", "mprotect", "pkey_mprotect", "brk", "sbrk",
    "__register_atfork", "_Fork", "clone", "dlclose", "shmat", "PMIx_Commit",
}  # fmt: skip
NEVER = re.compile(r"^P?MPI_(Get_version|Get_library_version|Abi_\w+|Pcontrol)$")
HOST_SYMBOL = re.compile(r"^(P?MPIX?_|MPIR_|MPID_|MPII_|ompi_|opal_|pmix_|PMI)", re.IGNORECASE)
CXX_RUNTIME = re.compile(r"^(_Z|__cxa_(?!finalize|atexit)|__gxx_personality|_Unwind_|__gcc_personality)")
NEEDED_OK = re.compile(r"^(libc|libm|libdl|libpthread|librt)\.so\.\d+$|^ld-linux.*")
GLIBC_FLOOR = (2, 28)


def run(*command: str, **kwargs) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, **kwargs).stdout


def dynamic_symbols(library: Path) -> tuple[set[str], set[str]]:
    """Names that the library defines and names that it leaves undefined, without version suffixes."""
    defined, undefined = set(), set()
    for line in run("nm", "-D", str(library)).splitlines():
        *_, kind, name = line.split()
        (undefined if kind in "Uwv" and len(line.split()) == 2 else defined).add(name.split("@")[0])
    return defined, undefined


def newer_glibc(binary: Path) -> list[str]:
    """The symbols for which a binary needs a glibc newer than the oldest that it must run with."""
    wrong = []
    for line in run("objdump", "-T", str(binary)).splitlines():
        version = re.search(r"\*UND\*.*\(?GLIBC_(\d+)\.(\d+)[\d.]*\)? +(\S+)$", line)
        if version and (int(version[1]), int(version[2])) > GLIBC_FLOOR:
            wrong.append(f"{binary.name}: needs glibc {version[1]}.{version[2]} for {version[3]}")
    return wrong


def check_library(library: Path, expected: set[str] | None) -> list[str]:
    """What is wrong with one library; `expected` is the exact set of MPI names, None for a module."""
    defined, undefined = dynamic_symbols(library)
    wrong = []
    allowed = expected or set()
    for name in sorted(defined):
        if NEVER.match(name):
            wrong.append(f"exports {name}, by which programs find the host's library")
        elif CXX_RUNTIME.match(name):
            wrong.append(f"exports {name} of the C++ runtime")
        elif name not in allowed and not name.startswith("zh_"):
            wrong.append(f"exports {name}, which is not its to export")
    for name in sorted((expected or set()) - defined):
        wrong.append(f"does not export {name} of the table of functions")
    for name in sorted(undefined):
        if HOST_SYMBOL.match(name):
            wrong.append(f"refers to {name} of the host")
        elif CXX_RUNTIME.match(name):
            wrong.append(f"takes {name} of the C++ runtime from outside")
    for name in re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", str(library))):
        if not NEEDED_OK.match(name):
            wrong.append(f"needs {name}")
    if re.search(r"\(TEXTREL\)", run("readelf", "-dW", str(library))):
        wrong.append("has text relocations")
    return [f"{library.name}: {w}" for w in wrong] + newer_glibc(library)


def check_preload(library: Path) -> list[str]:
    """A program without MPI must run the same with the library in front of it."""
    wrong = []
    for extra in ({}, {"LD_BIND_NOW": "1"}):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
        done = subprocess.run(
            ["/bin/echo", "alive"],
            env={**environment, **extra, "LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0 or done.stdout != "alive\n" or done.stderr:
            how = f"preloaded {extra or ''}: exit {done.returncode}, {done.stdout!r}, {done.stderr!r}"
            wrong.append(f"{library.name}: {how}")
    return wrong


def check(folder: Path, names: list[str], families: set[str] = FAMILIES) -> tuple[list[str], int]:
    """Findings and number of libraries in `folder`; libzerohop.so exports the functions `names` and `families`."""
    front = folder / "libzerohop.so"
    if not front.exists():
        return [f"{front} does not exist (make build)"], 0
    mpi = {prefix + name for name in names for prefix in ("MPI_", "PMPI_")}
    found = check_library(front, mpi | families) + check_preload(front)
    modules = sorted(folder.glob("libzerohop-*.so"))
    if not modules:
        found.append(f"no module libzerohop-<abi>.so beside {front.name}")
    for module in modules:
        found += check_library(module, None)
    for command in (folder.parent / "bin" / name for name in ("zerohop", "zerohop-tools")):
        if command.exists():
            found += newer_glibc(command)
    return found, 1 + len(modules)


GOOD = "int MPI_Send(void) { return 0; }\nint PMPI_Send(void) { return 0; }\nint zh_x(void) { return 1; }\n"
PLANTED = [
    ("a function that is not in the table", "int MPI_Recv(void) { return 0; }", "", "is not its to export"),
    ("a function by which hosts are found", "int MPI_Get_version(void) { return 0; }", "", "find the host's"),
    (
        "a reference to the host",
        "int PMPI_Init(void); int zh_(void) { return PMPI_Init(); }",
        "",
        "refers to PMPI_Init",
    ),
    ("a weak reference", "extern char ompi_x __attribute__((weak)); char* zh_z = &ompi_x;", "", "refers to ompi_x"),
    ("the C++ runtime", "void _ZSt9terminatev(void) {}", "", "of the C++ runtime"),
    ("a newer glibc", "int pthread_join(); void* zh_join = &pthread_join;", "", "needs glibc"),
    ("another library", "", "-Wl,--no-as-needed -lstdc++", "needs libstdc++"),
    (
        "output at start",
        'int puts(const char*); __attribute__((constructor)) void zh_c(void) { puts("x"); }',
        "",
        "preloaded",
    ),
]


def self_test() -> int:
    surprises = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def build(text: str, flags: str, output: str) -> None:
            (folder / "x.c").write_text(text)
            run("cc", "-shared", "-fPIC", str(folder / "x.c"), "-o", str(folder / output), *flags.split())

        build("int zh_module(void) { return 0; }", "", "libzerohop-test.so")
        build(GOOD, "", "libzerohop.so")
        found, _ = check(folder, ["Send"], set())
        if found:
            print(f"self-test: false alarm {found}")
            surprises += 1
        for what, text, flags, expected in PLANTED:
            build(GOOD + text, flags, "libzerohop.so")
            if not any(expected in f for f in check(folder, ["Send"], set())[0]):
                print(f"self-test: not found: {what}")
                surprises += 1
        build(GOOD, "", "libzerohop.so")
        build("int MPI_Send(void) { return 0; }", "", "libzerohop.so")
        if not any("does not export PMPI_Send" in f for f in check(folder, ["Send"], set())[0]):
            print("self-test: a missing function was not found")
            surprises += 1
        build(GOOD, "", "libzerohop.so")
        build("int MPI_Init(void) { return 0; }", "", "libzerohop-test.so")
        if not any("libzerohop-test.so: exports MPI_Init" in f for f in check(folder, ["Send"], set())[0]):
            print("self-test: a module that exports an MPI name was not found")
            surprises += 1
    return surprises


def main() -> int:
    parser = argparse.ArgumentParser(description="Exports of the preloaded libraries.")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--lib", type=Path, default=ROOT / "build" / "lib", help="folder of libzerohop.so")
    arguments = parser.parse_args()
    if arguments.self_test:
        surprises = self_test()
        print(f"check_exports self-test: {len(PLANTED) + 2} faults planted, {surprises} surprises")
        return 1 if surprises else 0
    found, libraries = check(arguments.lib.resolve(), read_tables())
    for line in found:
        print(line)
    print(f"check_exports: {libraries} libraries, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
