#!/usr/bin/env python3
"""The heap beside tools and other allocators, and in programs that are none of its business.

    tests/heap/tool_cases.py <case>      (ctest runs each; ZH_HEAP_LIBRARY names libzerohop.so)

Each case compares a program with the heap on and without. Exit code 0: passed, 1: failed, 77: skipped, with the reason.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support import BIN, LIBRARY, ROOT, TORTURE, case, environment, expect, main, skip

MODES = ("bare", "on", "shared")
CORE = str(BIN / "heap_core")
ARRAY_INDEX = 1234567


def run(command: list[str], env: dict[str, str], **more) -> subprocess.CompletedProcess:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, **more)


def served(said: str) -> bool:
    found = re.search(r"served (\d)", said)
    expect(found is not None, f"the program said {said!r}")
    return found[1] == "1"


# ---- processes that are none of the heap's business


def names_of_mappings(text: str) -> list[str]:
    """The files behind the mappings, and how many mappings have none."""
    lines = [line.split(None, 5) for line in text.splitlines() if line]
    return sorted({words[5] for words in lines if len(words) > 5})


def anonymous_mappings(text: str) -> int:
    return sum(len(line.split()) == 5 for line in text.splitlines())


PLAIN = {
    "cat": ["cat", "/proc/self/maps"],
    "sh": ["sh", "-c", "while read -r line; do echo \"$line\"; done < /proc/self/maps"],
    "python": [sys.executable, "-S", "-c", "print(open('/proc/self/maps').read())"],
}  # fmt: skip


@case
def programs_get_nothing():
    """No message is sent: the library and parts of glibc are in the process, nothing else, as a rank or not."""
    for launched in (False, True):
        env = environment("on", launched=launched)
        for name, command in PLAIN.items():
            bare = run(command, environment("bare", launched=launched)).stdout
            mine = run(command, env).stdout
            expect("libzerohop.so" in mine and "libzerohop.so" not in bare, f"{name}: the library is not preloaded")
            allowed = ("libzerohop", "/libdl.so.2", "/libpthread.so.0")  # a glibc before 2.34 has functions there
            theirs = names_of_mappings(bare)
            extra = [n for n in names_of_mappings(mine) if n not in theirs and not any(a in n for a in allowed)]
            expect(not extra, f"{name}: mappings beside the library: {extra}")
            # One more without a name may be the library's own zeroed data. Which of the program's own meet and count as
            # one is a matter of chance: the fewest of several launches.
            more = anonymous_mappings(mine) - anonymous_mappings(bare)
            for _ in range(8):
                if more <= 1:
                    break
                bare = run(command, environment("bare", launched=launched)).stdout
                more = min(more, anonymous_mappings(run(command, env).stdout) - anonymous_mappings(bare))
            expect(more <= 1, f"{name}: {more} more anonymous mappings")
        listing = run(["ls", "-l", "/proc/self/fd"], env).stdout
        expect("memfd" not in listing, f"an open memory file in a plain process: {listing}")
        true = run(["true"], env)
        expect(true.returncode == 0 and not true.stderr, f"true: {true}")


# ---- core dumps


def dump(mode: str, folder: Path) -> Path:
    folder.mkdir()
    everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        ran = run([CORE, "core"], environment(mode), cwd=folder,
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, everything))  # fmt: skip
    except subprocess.SubprocessError:
        skip("core dumps are not permitted (RLIMIT_CORE)")
    expect(ran.returncode == -6, f"the program ended with {ran.returncode}: {ran.stderr}")
    found = list(folder.glob("core*"))
    if not found:
        skip("the system writes no core file into the working folder")
    return found[0]


@case
def core_dumps_are_complete_and_no_larger():
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        skip(f"core_pattern is {pattern!r}: dumps do not come to the working folder")
    with tempfile.TemporaryDirectory(prefix="zh-heap-core-") as name:
        cores = {mode: dump(mode, Path(name) / mode) for mode in MODES}
        size = {mode: core.stat().st_size for mode, core in cores.items()}
        blocks = {mode: core.stat().st_blocks * 512 for mode, core in cores.items()}
        print(f"sizes {size}, on disk {blocks}")
        for what in (size, blocks):
            for mode in MODES:
                expect(abs(what[mode] - what["bare"]) <= 0.05 * what["bare"], f"core {mode}: {what}")
        if shutil.which("gdb") is None:
            skip("no gdb to read the dump with (dev/setup full)")
        for mode, core in cores.items():
            read = run(["gdb", "-batch", "-nx", "-ex", f"print zh_core_array[{ARRAY_INDEX}]",
                        "-ex", "print (int)zh_core_bss[5000000]", CORE, str(core)], dict(os.environ))  # fmt: skip
            wanted = (f"= {3 * ARRAY_INDEX + 1}", "= 7")
            for text in wanted:
                expect(text in read.stdout, f"gdb on the {mode} core: no {text!r} in {read.stdout}{read.stderr}")


# ---- other allocators


def library_file(name: str) -> str | None:
    """A library of the system, or of dev/setup's, by the start of its file name."""
    for prefix in (Path("/usr"), Path("/usr/local"), ROOT / "build" / "env" / "programs" / "usr"):
        for folder in ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"):
            for path in sorted((prefix / folder).glob(f"{name}.so*")):
                return str(path)
    return None


def beside_allocator(name: str) -> None:
    """Their blocks become shared like libc's, and come back before the allocator sees them again."""
    allocator = library_file(name)
    if allocator is None:
        skip(f"{name} is not installed (dev/setup full)")
    for preload in ([LIBRARY, allocator], [allocator, LIBRARY], [TORTURE, LIBRARY, allocator]):
        env = environment("shared")
        env["LD_PRELOAD"] = " ".join(preload)
        ran = run([CORE, "quiet"], env)
        expect(ran.returncode == 0, f"with LD_PRELOAD={env['LD_PRELOAD']}: {ran}")
        wanted = preload[0] == TORTURE
        expect(served(ran.stdout) == wanted, f"with LD_PRELOAD={env['LD_PRELOAD']}: shared is not {wanted}")
        script = "a = [bytearray(300000) for _ in range(200)]; import os; pid = os.fork();\n" \
                 "[b.__setitem__(5, 1) for b in a]\n" \
                 "if pid == 0: os._exit(0)\n" \
                 "raise SystemExit(os.waitpid(pid, 0)[1] or any(b[5] != 1 or b[6] for b in a))"  # fmt: skip
        ran = run([sys.executable, "-c", script], env)
        expect(ran.returncode == 0, f"python with LD_PRELOAD={env['LD_PRELOAD']}: {ran}")


@case
def beside_jemalloc():
    beside_allocator("libjemalloc")


@case
def beside_tcmalloc():
    beside_allocator("libtcmalloc_minimal")


@case
def beside_mimalloc():
    beside_allocator("libmimalloc")


@case
def the_plain_program_is_served():
    """What the other cases compare with: with nothing beside it the heap serves this program."""
    for mode in MODES:
        ran = run([CORE, "quiet"], environment(mode))
        expect(ran.returncode == 0, f"{mode}: {ran}")
        expect(served(ran.stdout) == (mode == "shared"), f"{mode}: {ran.stdout}")


# ---- watchers of memory


@case
def under_valgrind():
    if shutil.which("valgrind") is None:
        skip("no valgrind (dev/setup check)")
    for mode in MODES:
        env = environment(mode)
        good = run(["valgrind", "-q", "--error-exitcode=9", CORE, "quiet"], env)
        expect(good.returncode == 0, f"{mode}: {good}")
        expect(not served(good.stdout), f"{mode}: the heap serves under valgrind")
        wrong = run(["valgrind", "-q", "--error-exitcode=9", CORE, "wrong"], env)
        expect(wrong.returncode == 9 and "Invalid read" in wrong.stderr, f"{mode}: use after free not seen: {wrong}")


@case
def under_address_sanitizer():
    program = CORE + "_asan"
    for mode in ("bare", "on"):
        env = environment(mode)
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        good = run([program, "quiet"], env)
        expect(good.returncode == 0, f"{mode}: {good}")
        expect(not served(good.stdout), f"{mode}: the heap serves under AddressSanitizer")
        wrong = run([program, "wrong"], env)
        expect("heap-use-after-free" in wrong.stderr, f"{mode}: use after free not seen: {wrong}")


if __name__ == "__main__":
    sys.exit(main())
