"""What the heap's tests in Python share: the three ways to run a program, and cases that pass, fail or are skipped."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = os.environ.get("ZH_HEAP_LIBRARY", str(ROOT / "build" / "lib" / "libzerohop.so"))
BIN = Path(os.environ.get("ZH_HEAP_BIN", ROOT / "build" / "bin"))
TORTURE = os.environ.get("ZH_HEAP_TORTURE", str(ROOT / "build" / "lib" / "libheap_torture.so"))
SKIPPED = 77

LAUNCHERS = ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")

_cases: dict[str, Callable[[], None]] = {}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def case(function: Callable[[], None]) -> Callable[[], None]:
    _cases[function.__name__] = function
    return function


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise Failed(what)


def skip(why: str) -> None:
    raise Skipped(why)


def environment(mode: str, launched: bool = True) -> dict[str, str]:
    """The variables for `bare`, `off` (with ZEROHOP_HEAP=0), `on` or `shared`; `launched` as a rank of a job of one."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ZEROHOP", "ZH_HEAP", "ZH_TORTURE")) and name not in ("LD_PRELOAD", *LAUNCHERS)
    }
    if launched:
        clean |= {"PMI_RANK": "0", "PMI_SIZE": "1"}
    if mode != "bare":
        clean["LD_PRELOAD"] = f"{TORTURE} {LIBRARY}" if mode == "shared" else LIBRARY
    if mode == "shared":
        clean |= {"ZH_TORTURE_MIN": "16384", "ZH_TORTURE_PERCENT": "100", "ZH_TORTURE_PARTS": "0"}
        clean["ZH_TORTURE_MOST"] = str(64 << 20)
    if mode == "off":
        clean["ZEROHOP_HEAP"] = "0"
    return clean


def in_heap(address: int) -> bool:
    """Is this address of this process in a memory file of zerohop?"""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split(None, 1)[0].split("-"))
        if first <= address < last:
            return "memfd:" in line and "zerohop" in line and line.split(None, 2)[1].endswith("s")
    return False


def processes_of(mark: str) -> list[int]:
    """Living processes other than this one with `mark` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def heap_bytes(pid: int) -> int:
    """Memory in the files of a process's heap."""
    total = 0
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if "memfd:zerohop-heap" in os.readlink(link):
                total += link.stat().st_blocks * 512
    except OSError:
        pass  # it has just ended
    return total


def main() -> int:
    """Runs the case that the command line names, or all of them."""
    names = sys.argv[1:] or list(_cases)
    worst = 0
    for name in names:
        if name not in _cases:
            print(f"no case {name}; there are: {', '.join(_cases)}")
            return 2
        try:
            _cases[name]()
        except Skipped as why:
            print(f"SKIPPED {name}: {why}")
            worst = worst or SKIPPED
        except Exception as problem:
            print(f"FAILED {name}: {problem}")
            if not isinstance(problem, Failed):
                traceback.print_exc()
            worst = 1
        else:
            print(f"ok {name}")
    return worst
