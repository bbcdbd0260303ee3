#!/usr/bin/env python3
"""Checks the rules that keep the layers apart (docs/design/architecture.md), on every source file.

- an include points down or sideways, never up; simd and model see base only, heap sees os and base only
- a room of a layer (src/coll/team) sees the layer's own files and the rooms that ROOMS names
- mpi.h only in src/mpi, bench/mpi, bench/apps, tests/mpi and examples
- <atomic> and std::atomic only in src/base/atomic.h (and in the model checker that stands in for it)
- within src, system calls and their headers only in src/os, and in those files that are these very calls
- a file stays below 600 lines, a function within 60 (src, tools, bench)
- no circle of includes
- no two types of the namespaces of src, made in headers, have one name
- the whole stays within its budget (BUDGET): lines of source by folder, words of pages, variables,
  leaf commands
- no machine paths, no issue numbers, no words from <git folder>/private-words (one regular expression per line,
  optional)

Prints file:line: what, exits 1 on any. `--self-test` plants one violation of each kind and proves that it is found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 600
MAX_FUNCTION_LINES = 60

# Lowest first.
ORDER = ["base", "os", "node", "shm", "copy", "tune", "p2p", "coll", "engine", "capi", "mpi"]
# Side layers: the only layers that each may see.
SIDE = {"simd": {"base"}, "model": {"base"}, "heap": {"base", "os"}}
# Files that define functions of libc, for the preloaded library alone.
OVERRIDES = "_family.cpp"
# Rooms of a layer: the rooms that each may see beside the layer's own files. What is in none sees none.
ROOMS: dict[str, dict[str, set[str]]] = {
    "coll": {"team": set(), "schedule": set(), "algorithms": {"schedule"}, "analysis": {"schedule"}},
    # Not of src: tools/<room>/file.cpp.
    "tools": {
        "cli": set(),
        "bench": {"cli"},
        "model": {"cli", "bench"},
        "tune": {"cli", "bench", "model"},
        "doctor": {"cli", "bench"},
        "top": {"cli"},
        "info": {"cli", "bench", "model", "doctor"},
    },
}
# Rooms for tools and tests: nothing else in src sees them.
TOOL_ROOMS = {"coll/analysis"}
# From which layer on a side layer may be seen.
SIDE_SEEN_FROM = {"simd": "p2p", "model": "coll", "heap": "copy"}

# How much there may be. Raised only in a commit that says why; lowered with what goes.
BUDGET = {
    "lines of src": 49_476,
    "lines of tools": 12_856,
    "lines of tests": 63_877,
    "lines of bench": 6_172,
    "lines of dev": 4_275,
    "lines of kernel": 1_466,
    "lines of python": 6_369,
    "words of pages": 42_246,
    "variables": 13,
    "leaf commands": 19,
}
LEAF = re.compile(r'(?:add_subcommand\(\s*|add_python_command\(\S+ |\bb\.name = )"(?!bench|model")\w+"')
VARIABLE = re.compile(r'"(ZEROHOP_[A-Z_]+)"')

MPI_FOLDERS = ("src/mpi/", "bench/mpi/", "bench/apps/", "tests/mpi/", "examples/")
ATOMIC_FILES = ("src/base/atomic.h", "tests/model/")
SOURCE_FOLDERS = ("src", "include", "tools", "bench", "tests", "examples", "dev", "python")
C_SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".S"}
TEXT_SUFFIXES = C_SUFFIXES | {".py", ".cmake", ".md", ".txt", ".toml", ".json", ".sh", ".in"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SYSTEM_HEADERS = re.compile(
    r"^(sys/(mman|syscall|socket|un|prctl|ptrace|statfs|sendfile|ioctl|wait|resource)\.h|linux/.*|sched\.h|asm/.*)$"
)
SYSTEM_CALLS = re.compile(
    r"(?<![\w.:>])(?:::)?(syscall|process_vm_readv|process_vm_writev|mmap|munmap|mprotect|madvise|memfd_create|ftruncate|"
    r"fallocate|posix_fallocate|sched_setaffinity|sched_getaffinity|sched_yield|prctl|pidfd_open|fork)\s*\("
)
MACHINE_PATH = re.compile(r"""(?<![\w.})\]$/*<~+-])/(?:home|root|Users|work|build|scratch|mnt|data)/\w""")
ISSUE_NUMBER = re.compile(r"\b(?:[Ii]ssues?|[Tt]icket)\s+#?\d+\b")

# A type at the left margin of a header: of a namespace, not of a class.
TYPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:struct|class|enum class|enum|union)\s+(?:alignas\([^)]*\)\s+|\[\[\w+\]\]\s+)?"
    r"(\w+)\b(?!::)(?:\s+final)?\s*(?::[^;{]*)?\{|^using\s+(\w+)\s*=",
    re.M,
)

# The head of a function, as clang-format leaves it, on one line or several: at the margin, or steps in, of classes.
HEAD = re.compile(
    r"^((?:  ){0,2})(?!(?:namespace|extern|case|default|public|private|protected)\b)"
    r"(?!(?:template <.*> )?(?:class|struct|enum|union)\b)[^\s#/}{*&|?:].*"
)
FUNCTION_FOLDERS = ("src/", "tools/", "bench/")

Finding = tuple[str, int, str]


def layer_of(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def room_of(path: str) -> str:
    """The room of "layer/room/file", else the empty string."""
    layer, *rest = path.split("/")
    return rest[0] if len(rest) > 1 and layer in ROOMS else ""


def check_rooms(path: str, name: str) -> Iterator[str]:
    """Findings of the file src/`path` (or tools/…) that includes `name`."""
    layer, room, target = path.split("/")[0], room_of(path), room_of(name)
    place = f"{name.split('/')[0]}/{target}"
    if layer != "tools" and place in TOOL_ROOMS and (layer, room) != (name.split("/")[0], target):
        yield f"{place} is for tools and tests"
    elif target and name.startswith(f"{layer}/") and target != room and target not in ROOMS[layer].get(room, set()):
        yield f"{layer}/{room or '*'} may not see {layer}/{target}"


def may_include(layer: str, target: str) -> bool:
    """Whether a file of `layer` may include one of `target`."""
    if layer == target:
        return True
    if layer in SIDE:
        return target in SIDE[layer]
    if target in SIDE:
        return layer in ORDER and ORDER.index(layer) >= ORDER.index(SIDE_SEEN_FROM[target])
    return layer in ORDER and target in ORDER and ORDER.index(target) < ORDER.index(layer)


def strip_comment(line: str) -> str:
    return line.split("//", 1)[0]


def check_c_line(path: str, layer: str | None, line: str) -> Iterator[str]:
    code = strip_comment(line)
    include = INCLUDE.match(line)
    if include:
        name = include[2]
        target = name.split("/")[0] if "/" in name else None
        if layer and include[1] == '"' and (target in ORDER or target in SIDE) and not may_include(layer, target):
            yield f"{layer} may not see {target}: includes point down ({' < '.join(ORDER)})"
        if (layer or path.startswith("tools/")) and include[1] == '"':
            yield from check_rooms(path.removeprefix("src/"), name)
        if name in ("mpi.h", "mpi_abi.h", "mpi.mod") and not path.startswith(MPI_FOLDERS):
            yield f"{name} is only for {', '.join(MPI_FOLDERS)}"
        if (
            name in ("atomic", "stdatomic.h")
            and not path.startswith(ATOMIC_FILES)
            and not path.startswith("bench/mpi/")
        ):
            yield f"<{name}> is only for src/base/atomic.h: use zh::Atomic"
        if layer and layer != "os" and SYSTEM_HEADERS.match(name) and not path.endswith(OVERRIDES):
            yield f"<{name}> is only for src/os"
    elif path.startswith("src/"):
        if re.search(r"\bstd::atomic", code) and not path.startswith(ATOMIC_FILES):
            yield "std::atomic is only for src/base/atomic.h: use zh::Atomic"
        may_call = layer in (None, "os") or path.endswith((".S", OVERRIDES))
        call = None if may_call else SYSTEM_CALLS.search(code)
        if call:
            yield f"{call[1]}() is a system call: only for src/os"


def check_file(path: str, text: str, private: list[re.Pattern[str]]) -> Iterator[Finding]:
    """Findings of one file; `path` is relative to the root, with slashes."""
    suffix = Path(path).suffix
    lines = text.splitlines()
    is_code = path.split("/")[0] in SOURCE_FOLDERS and suffix in C_SUFFIXES | {".py"}
    if is_code and len(lines) >= MAX_LINES:
        yield path, len(lines), f"{len(lines)} lines; a file has one subject and stays below {MAX_LINES}"
    if suffix in C_SUFFIXES and path.startswith(FUNCTION_FOLDERS):
        yield from check_functions(path, lines)
    layer = layer_of(path)
    room = room_of(path.removeprefix("src/"))
    if layer and room and room not in ROOMS[layer]:
        yield path, 1, f"src/{layer}/{room} is no room known to dev/check_layers.py"
    if layer and suffix in C_SUFFIXES and layer not in ORDER and layer not in SIDE:
        yield path, 1, f"src/{layer} is no layer known to dev/check_layers.py"
    for number, line in enumerate(lines, 1):
        if suffix in C_SUFFIXES:
            for what in check_c_line(path, layer, line):
                yield path, number, what
        if path == "dev/check_layers.py":
            continue
        if MACHINE_PATH.search(line):
            yield path, number, "a path of one machine"
        if ISSUE_NUMBER.search(line):
            yield path, number, "an issue number: say the reason itself"
        for pattern in private:
            if pattern.search(line):
                yield path, number, f"private word ({pattern.pattern})"


def check_functions(path: str, lines: list[str]) -> Iterator[Finding]:
    """Functions that are too long."""
    for first, line in enumerate(lines):
        head = HEAD.match(line)
        if not head:
            continue
        deeper = head[1] + "  "
        last = first  # of the head: what goes on is further in than a body would be, or is a list of initializers
        while last + 1 < len(lines) and not lines[last].endswith(("{", ";", "}")):
            if not lines[last + 1].startswith(deeper):
                break
            last += 1
        if not lines[last].endswith(" {") or "(" not in "".join(lines[first : last + 1]):
            continue
        length = next((n for n, later in enumerate(lines[first:], 1) if later.startswith(head[1] + "}")), 0)
        if length > MAX_FUNCTION_LINES:
            yield path, first + 1, f"a function of {length} lines; it does one thing, in at most {MAX_FUNCTION_LINES}"


def check_circles(texts: dict[str, str]) -> Iterator[Finding]:
    """Headers of src that include each other, by whatever way round."""
    seen: dict[str, list[str]] = {}
    for path, text in texts.items():
        if layer_of(path) is not None:
            names = (m[2] for line in text.splitlines() if (m := INCLUDE.match(line)) and m[1] == '"')
            seen[path] = [f"src/{name}" for name in names if f"src/{name}" in texts]
    done: set[str] = set()

    def walk(path: str, way: list[str]) -> Iterator[Finding]:
        if path in way:
            yield path, 1, f"a circle of includes: {' -> '.join([*way[way.index(path) :], path])}"
        elif path not in done:
            for name in seen[path]:
                yield from walk(name, [*way, path])
            done.add(path)

    for path in seen:
        yield from walk(path, [])


def check_type_names(texts: dict[str, str]) -> Iterator[Finding]:
    """Types of one name in two headers of src; `texts` by path."""
    homes: dict[str, str] = {}
    for path, text in texts.items():
        if layer_of(path) is None or Path(path).suffix != ".h":
            continue
        for match in TYPE.finditer(text):
            name = match[1] or match[2]
            if homes.setdefault(name, path) != path:
                yield path, text.count("\n", 0, match.start()) + 1, f"{homes[name]} has a type {name} as well"


def private_words(root: Path) -> list[re.Pattern[str]]:
    git = subprocess.run(["git", "rev-parse", "--absolute-git-dir"], cwd=root, capture_output=True, text=True)
    words = Path(git.stdout.strip()) / "private-words" if git.returncode == 0 else None
    if not words or not words.exists():
        return []
    return [re.compile(w) for w in words.read_text().splitlines() if w.strip() and not w.startswith("#")]


def files(root: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    names = listed.stdout.splitlines()
    if listed.returncode != 0:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    return sorted(n for n in names if (root / n).is_file() and (Path(n).suffix in TEXT_SUFFIXES or n == "Makefile"))


def amounts(texts: dict[str, str]) -> dict[str, int]:
    """What BUDGET bounds, of the texts by name."""
    counts = dict.fromkeys(BUDGET, 0)
    for name, text in texts.items():
        folder = f"lines of {name.split('/')[0]}"
        if folder in counts and Path(name).suffix in C_SUFFIXES | {".py", ".sh"}:
            counts[folder] += text.count("\n")
        if name.startswith("tools/") and Path(name).suffix == ".cpp":
            counts["leaf commands"] += len(LEAF.findall(text))
        if Path(name).suffix == ".md":
            counts["words of pages"] += len(text.split())
    counts["variables"] = len(set(VARIABLE.findall(texts.get("src/base/options.cpp", ""))))
    return counts


def check_amounts(texts: dict[str, str], budget: dict[str, int]) -> Iterator[Finding]:
    for what, count in amounts(texts).items():
        if count > budget[what]:
            yield "dev/check_layers.py", 1, f"{count} {what} are over the budget of {budget[what]}: what can go?"


def check(root: Path) -> list[Finding]:
    private = private_words(root)
    found: list[Finding] = []
    texts = {name: (root / name).read_text(errors="replace") for name in files(root)}
    for name, text in texts.items():
        found.extend(check_file(name, text, private))
    return found + list(check_type_names(texts)) + list(check_circles(texts)) + list(check_amounts(texts, BUDGET))


PLANTED = {
    "src/os/up.cpp": ('#include "p2p/request.h"\n', "os may not see p2p"),
    "src/coll/team/plan.cpp": ('#include "coll/schedule/run.h"\n', "coll/team may not see coll/schedule"),
    "src/coll/root.h": ('#include "coll/team/team.h"\n', "coll/* may not see coll/team"),
    "src/engine/proof.cpp": ('#include "coll/analysis/check.h"\n', "coll/analysis is for tools and tests"),
    "tools/cli/up.cpp": ('#include "tools/bench/judge.h"\n', "tools/cli may not see tools/bench"),
    "src/node/twice.h": ("struct Twin final {\n};\n", "has a type Twin as well"),
    "src/coll/attic/old.cpp": ("\n", "no room known"),
    "src/simd/side.h": ('#include "os/clock.h"\n', "simd may not see os"),
    "src/p2p/mpi.cpp": ("#include <mpi.h>\n", "mpi.h is only for"),
    "src/shm/atomic.h": ("#include <atomic>\n", "<atomic> is only for"),
    "src/shm/word.h": ("std::atomic<int> word;\n", "std::atomic is only for"),
    "src/copy/call.cpp": ("int x = process_vm_readv(a, b, c, d, e, 0);\n", "is a system call"),
    "src/node/header.cpp": ("#include <sys/mman.h>\n", "<sys/mman.h> is only for src/os"),
    "src/engine/long.cpp": ("\n" * MAX_LINES, "stays below"),
    "src/engine/endless.cpp": ("int f() {\n" + "  g();\n" * (MAX_FUNCTION_LINES - 1) + "}\n", "a function of 61 lines"),
    "tools/wrapped.cpp": ("int f(int a,\n      int b) {\n" + "  g();\n" * MAX_FUNCTION_LINES + "}\n", "of 63 lines"),
    "src/os/made.cpp": ("A::A(int a)\n    : a_(a) {\n" + "  g();\n" * MAX_FUNCTION_LINES + "}\n", "of 63 lines"),
    "tools/method.cpp": (
        "struct A {\n  int f() const {\n" + "    g();\n" * MAX_FUNCTION_LINES + "  }\n};\n",
        "62 lines",
    ),
    "src/node/about.h": ('#include "node/round.h"\n', "a circle of includes: src/node/about.h -> src/node/round.h"),
    "src/other/file.cpp": ("\n", "no layer known"),
    "tools/path.cpp": ("// see /" + "home/someone/notes\n", "a path of one machine"),
    "docs/note.md": ("This mends issue " + "12.\n", "an issue number"),
}
CLEAN = {
    "src/engine/ok.cpp": '#include "p2p/request.h"\n#include "base/status.h"\n  region.mmap(x); // fork()\n',
    "src/coll/algorithms/ok.cpp": '#include "coll/schedule/run.h"\n#include "coll/types.h"\n',
    "src/coll/analysis/ok.cpp": '#include "coll/analysis/pairs.h"\n',
    "src/node/round.h": '#include "node/about.h"\n',
    "src/node/sees.cpp": '#include "node/about.h"\n',
    "src/engine/whole.cpp": "int f() {\n" + "  g();\n" * (MAX_FUNCTION_LINES - 2) + "}\n",
    "src/base/twice.h": "struct Twin {\n  struct Part {};\n};\nclass Later;\n",
    "src/os/part.h": "class Part {\n};\nclass Later;\n",
    "src/os/ok.cpp": "#include <sys/mman.h>\nvoid* p = mmap(a, b, c, d, e, f);\n",
    "src/mpi/ok.cpp": "#include <mpi.h>\n",
    "src/base/atomic.h": "#include <atomic>\nstd::atomic<int> value;\n",
}


def self_test() -> int:
    """Each planted violation is found, and only there. Returns the number of surprises."""
    surprises = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in [(n, t) for n, (t, _) in PLANTED.items()] + list(CLEAN.items()):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = check(root)
        for name, (_, expected) in PLANTED.items():
            if not any(f[0] == name and expected in f[2] for f in found):
                print(f"self-test: the violation planted in {name} was not found")
                surprises += 1
        for finding in found:
            if finding[0] in CLEAN:
                print(f"self-test: false alarm {finding}")
                surprises += 1
    if not list(check_file("a.md", "our secretword\n", [re.compile("secretword")])):
        print("self-test: a private word was not found")
        surprises += 1
    texts = {"src/a.cpp": "int a;\nint b;\n", "docs/a.md": "one two\n", "src/base/options.cpp": '{"ZEROHOP_X", 1},\n'}
    tight = dict.fromkeys(BUDGET, 1)
    over = [f[2].split(" are")[0] for f in check_amounts(texts, tight)]
    if over != ["3 lines of src", "2 words of pages"]:
        print(f"self-test: what is over a budget was not found: {over}")
        surprises += 1
    return surprises


def main() -> int:
    parser = argparse.ArgumentParser(description="Layer rules.")
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        surprises = self_test()
        print(f"check_layers self-test: {len(PLANTED) + 2} violations planted, {surprises} surprises")
        return 1 if surprises else 0
    found = check(ROOT)
    for path, number, what in found:
        print(f"{path}:{number}: {what}")
    print(f"check_layers: {len(found)} findings in {len(files(ROOT))} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
