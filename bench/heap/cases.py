"""The cases of bench/heap/run.py: our own loops, and programs of others."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

from zerohop.apps_programs import LAMMPS_INPUT

PYTHON_SCRIPT = """
import json, random
random.seed(1)
rows = [{"index": i, "name": "row %d" % i, "values": [random.random() for _ in range(8)]} for i in range(30000)]
for turn in range(3):
    text = json.dumps(rows)
    again = json.loads(text)
assert again == rows
numbers = list(range(2000000))
numbers = [n * 3 for n in numbers]
numbers.sort(key=lambda n: n % 1001)
buffer = bytearray()
for i in range(4000):
    buffer += bytes([i % 256]) * 10000
whole = bytes(buffer)
parts = [whole[i:i + 1000000] for i in range(0, len(whole), 1000000)]
joined = b"".join(parts)
assert joined == whole and whole.count(b"\\x07") > 0
text = "x".join(str(n) for n in numbers[:500000])
assert len(text.split("x")) == 500000
"""

STARTS = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"

NUMPY_TEMPORARIES = """
import numpy as np
for n in (3000, 20000, 600000, 3000000):
    a = np.ones(n)
    for turn in range(max(4, 30000000 // n)):
        a = (a * 1.5 + 2.0) / (a + 1.0)
    assert np.isfinite(a.sum())
"""

NUMPY_HEAT = """
import numpy as np
u = np.zeros((1200, 1200))
u[0] = 100.0
for step in range(60):
    u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
assert u[1, 600] > 0
"""


@dataclasses.dataclass
class Case:
    name: str
    command: list[str]
    unit: str
    says_itself: bool = True  # prints its number as JSON; else its elapsed time is taken


def alloc_cases(bench: str, quick: bool) -> list[Case]:
    many = 2 * (os.cpu_count() or 1)
    if quick:
        plan = [
            *[("touch", size, 1) for size in ("64", "48K", "1M", "32M")],
            *[("fifo", size, 1) for size in ("48K", "1M")],
            ("mix", "16M", 1), ("grow", "16M", 1), ("cross", "128K", many), ("touch", "1M", many),
        ]  # fmt: skip
    else:
        plan = [
            (pattern, size, threads)
            for pattern in ("touch", "calloc", "fifo", "mix", "grow", "cross")
            for size in ("16", "1K", "16K", "48K", "256K", "1M", "8M", "64M")
            for threads in (1, many // 2, many)
            if not (pattern == "cross" and (threads == 1 or size == "64M"))
            and not (pattern in ("mix", "grow") and size in ("16", "1K", "256K"))
            and not (pattern == "calloc" and (threads > 1 or size in ("16", "1K")))
        ]
    return [
        Case(f"{pattern} {size} x{threads}",
             [bench, "--pattern", pattern, "--size", size, "--threads", str(threads), "--seconds", "0.1"],
             "ns")
        for pattern, size, threads in plan
    ]  # fmt: skip


def access_cases(bench: str, quick: bool) -> list[Case]:
    sizes = {
        "first": ("64K", "1M", "64M"),
        "triad": ("1M", "64M") if quick else ("64K", "1M", "16M", "256M"),
        "random": ("64M",) if quick else ("1M", "16M", "64M", "256M"),
        "rows": ("16K", "32K"),
        "fork": ("64M",) if quick else ("64M", "4G"),
    }
    units = {"first": "ns/page", "triad": "ns/KiB", "random": "ns", "rows": "ns", "fork": "us"}
    return [
        Case(f"{kernel} {size}", [bench, "--kernel", kernel, "--size", size, "--seconds", "0.15"], units[kernel])
        for kernel, all_sizes in sizes.items()
        for size in all_sizes
    ]


def compiler_case(root: Path, source: str) -> Case | str:
    """g++ on a source of this repository, as the build calls it."""
    database = root / "build" / "cmake" / "release" / "compile_commands.json"
    if not database.exists():
        return "the compiler: no build/cmake/release/compile_commands.json"
    for entry in json.loads(database.read_text()):
        if entry["file"].endswith(source):
            words = [w for w in entry["command"].replace('\\"', '"').split() if "ccache" not in w]
            words[words.index("-o") + 1] = "/dev/null"
            return Case("g++ -O2", words, "s", says_itself=False)
    return f"the compiler: {source} is not in the build"


def program_cases(root: Path, folder: Path, quick: bool) -> tuple[list[Case], list[str]]:
    found, absent = [], []
    script = folder / "lists.py"
    script.write_text(PYTHON_SCRIPT)
    python = shutil.which("python3") or "python3"
    # The interpreter itself: a launcher script before it would be measured as well.
    python = os.path.realpath(os.popen(f"{python} -c 'import sys; print(sys.executable)'").read().strip())
    found.append(Case("python lists, json", [python, str(script)], "s", says_itself=False))
    found.append(Case("300 starts of true", ["/bin/sh", "-c", STARTS], "s", says_itself=False))
    numpy_python = root / "build/env/mpich/bin/python"
    if numpy_python.exists():
        for name, text in (("numpy temporaries", NUMPY_TEMPORARIES), ("numpy heat equation", NUMPY_HEAT)):
            numpy_script = folder / (name.replace(" ", "_") + ".py")
            numpy_script.write_text(text)
            found.append(Case(name, [str(numpy_python), str(numpy_script)], "s", says_itself=False))
    else:
        absent.append("NumPy: no build/env/mpich (dev/setup)")
    # The longer one takes 350 MiB and some seconds.
    compiler = compiler_case(root, "src/engine/rank.cpp" if quick else "tools/bench/judge.cpp")
    found.append(compiler) if isinstance(compiler, Case) else absent.append(compiler)
    programs, libraries = root / "build/env/programs/usr", root / "build/env/openmpi/lib"
    lammps = programs / "bin" / "lmp"
    if lammps.exists() and not quick:
        deck = folder / "in.melt"
        deck.write_text(LAMMPS_INPUT.format(box=16, steps=100))
        where = programs / "lib" / "x86_64-linux-gnu"
        path = f"LD_LIBRARY_PATH={where}:{where / 'blas'}:{libraries}"
        command = ["/usr/bin/env", "-u", "PMI_RANK", "-u", "PMI_SIZE", path, "OMP_NUM_THREADS=1", str(lammps)]
        found.append(Case("lammps melt", [*command, "-in", str(deck), "-log", "none"], "s", says_itself=False))
    elif not quick:
        absent.append("LAMMPS: no build/env/programs (dev/setup full)")
    return found, absent


def cases(root: Path, folder: Path, quick: bool) -> tuple[list[Case], list[str]]:
    """The cases that can run here, and why others cannot. Scripts that they need are written to `folder`."""
    bin_folder = root / "build" / "bin"
    programs, absent = program_cases(root, folder, quick)
    own = [
        *alloc_cases(str(bin_folder / "heap_alloc_bench"), quick),
        *access_cases(str(bin_folder / "heap_access_bench"), quick),
    ]
    return [*own, *programs], absent
