#!/usr/bin/env python3
"""Checks that what the pages point at is there.

- a link or picture of a page (*.md) leads to a file or folder of the repository
- an #anchor is a heading of the page that it leads to
- a path in a page's inline code (`src/coll/team.cpp`, `coll/team.cpp`, `src/tune/ways.*`) names a file: seen from the
  root, from src or from the page
- docs/<path>.md and docs/<path>.svg in any text of the repository, comments and messages included, is a file
- every page of docs/ is in the index docs/README.md
- docs/dev/where-is.md answers each question by one file
- docs/design/invariants.md names every type ...Shm of src, and no other
- a line of a page ends within 120 columns, but in tables, code blocks and pages that a command writes

Links to other sites are not followed. Code blocks are not looked at.

Prints file:line: what, exits 1 on any. `--self-test` plants one fault of each kind and proves that it is found.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from check_layers import files

ROOT = Path(__file__).resolve().parent.parent
OWN_NAMES = {"dev/check_links.py", "dev/check_layers.py"}  # their planted faults name pages that are not there

FENCE = re.compile(r"^ {0,3}(```|~~~)")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
INLINE_CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
SOURCE = re.compile(r"<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
NAMED = re.compile(r"<a\b[^>]*?\b(?:id|name)=\"([^\"]+)\"")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
CODE_PATH = re.compile(r"^(?:[\w+-][\w.+-]*/)+[\w.*+-]+\.[\w*]+$")
PAGE_PATH = re.compile(r"(?<![\w/.])docs/[\w./-]*\.(?:md|svg)\b")
WHERE = "docs/dev/where-is.md"
INVARIANTS = "docs/design/invariants.md"
SHARED_TYPE = re.compile(r"^ *(?:struct|class) (?:alignas\(\w+\) )?(\w+Shm)\b[^;]*\{", re.M)
MAX_COLUMNS = 120
WRITTEN = "<!-- Written by "
BUILT = ("build/", "lib/", "libexec/", "bin/")  # made by the build or an installation

Finding = tuple[str, int, str]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines outside of code blocks."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, line


def anchors(text: str) -> set[str]:
    """The names that a forge gives to a page's headings."""
    found: set[str] = set()
    for _, line in prose(text):
        found.update(NAMED.findall(line))
        heading = HEADING.match(line)
        if not heading:
            continue
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        unique, again = name, 0
        while unique in found:
            again += 1
            unique = f"{name}-{again}"
        found.add(unique)
    return found


def is_in(root: Path, path: Path) -> bool:
    return path == root or root in path.parents


def check_target(root: Path, page: str, target: str) -> str | None:
    """What is wrong with the target of a link, or None."""
    if SCHEME.match(target):
        return None
    name, _, anchor = target.partition("#")
    path = ((root / page).parent / unquote(name)).resolve() if name else (root / page)
    if not is_in(root, path) or not path.exists():
        return f"the link {target} leads nowhere"
    if anchor and (path.suffix != ".md" or anchor not in anchors(path.read_text(errors="replace"))):
        return f"the link {target} names no heading"
    return None


def names_file(root: Path, page: str, path: str) -> bool:
    folders = (root, root / "src", (root / page).parent)
    return any(next(folder.glob(path), None) is not None for folder in folders)


def check_page(root: Path, page: str, text: str) -> Iterator[Finding]:
    for number, line in prose(text):
        for code in INLINE_CODE.findall(line):
            if CODE_PATH.match(code) and not code.startswith(BUILT) and not names_file(root, page, code):
                yield page, number, f"no file `{code}`"
        plain = INLINE_CODE.sub("``", line)
        for target in LINK.findall(plain) + SOURCE.findall(plain):
            what = check_target(root, page, target)
            if what:
                yield page, number, what


def check_names(root: Path, name: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        for path in PAGE_PATH.findall(line):
            if not (root / path).exists():
                yield name, number, f"there is no {path}"


def check_where(text: str) -> Iterator[Finding]:
    """Each row of the table of questions has one file in its second cell; check_page() looks whether it is there."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if cells and cells[0] != "where" and not (len(cells) == 2 and CODE_PATH.match(cells[1].strip("`"))):
            yield WHERE, number, "a question is answered by one file"


def check_shared_types(root: Path, names: list[str]) -> Iterator[Finding]:
    types = {t for n in names if n.startswith("src/") for t in SHARED_TYPE.findall((root / n).read_text())}
    named = set(re.findall(r"`(\w+Shm)`", (root / INVARIANTS).read_text()))
    for name in sorted(types ^ named):
        yield INVARIANTS, 1, f"{name} is {'not on the page' if name in types else 'no type of src'}"


def check_columns(page: str, text: str) -> Iterator[Finding]:
    for number, line in prose(text) if WRITTEN not in text else ():
        if len(line) > MAX_COLUMNS and not line.startswith("|"):
            yield page, number, f"{len(line)} columns, more than {MAX_COLUMNS}"


def check_index(root: Path, pages: list[str]) -> Iterator[Finding]:
    index = root / "docs" / "README.md"
    if not index.exists():
        return
    linked = {
        (index.parent / unquote(target.partition("#")[0])).resolve() for target in LINK.findall(index.read_text())
    }
    for page in pages:
        if page.startswith("docs/") and page != "docs/README.md" and (root / page).resolve() not in linked:
            yield "docs/README.md", 1, f"{page} is not in the index"


def check(root: Path) -> list[Finding]:
    root = root.resolve()
    found: list[Finding] = []
    names = files(root)
    for name in names:
        text = (root / name).read_text(errors="replace")
        if name.endswith(".md"):
            found.extend(check_page(root, name, text))
            found.extend(check_columns(name, text))
        if name == WHERE:
            found.extend(check_where(text))
        if name not in OWN_NAMES:
            found.extend(check_names(root, name, text))
    found.extend(check_shared_types(root, names))
    found.extend(check_index(root, [n for n in names if n.endswith(".md")]))
    return found


# What is planted, and what is to be said of it; the whole list of findings has to be this one.
PLANTED = {
    "docs/link.md": ("# Page\n\nSee [that](nowhere.md).\n", "the link nowhere.md leads nowhere"),
    "docs/outside.md": ("[that](../../other/page.md)\n", "the link ../../other/page.md leads nowhere"),
    "docs/anchor.md": ("[that](good.md#no-such-part)\n", "the link good.md#no-such-part names no heading"),
    "docs/own.md": ("# A part\n\n[that](#another-part)\n", "the link #another-part names no heading"),
    "docs/picture.md": ("![drawn](none.svg)\n", "the link none.svg leads nowhere"),
    "docs/code.md": ("Made by `coll/none.cpp`.\n", "no file `coll/none.cpp`"),
    "src/coll/message.cpp": ('const char* cure = "docs/old.md says what to do";\n', "there is no docs/old.md"),
    "docs/lost.md": ("# Lost\n", "docs/lost.md is not in the index"),
    "docs/dev/where-is.md": (
        "| where | file |\n|---|---|\n| is it? | in the code |\n",
        "a question is answered by one file",
    ),
    INVARIANTS: ("`GoneShm`, `KeptShm`\n", "GoneShm is no type of src"),
    "src/shm/new.h": ("struct alignas(64) NewShm {\n};\n", "NewShm is not on the page"),
    "docs/wide.md": ("word " * 25 + "\n", "125 columns, more than 120"),
}
CLEAN = {
    "docs/good.md": "# Good\n\n## A part: *near*, `far`\n\n## A part\n\n## A part\n\n"
    "[1](#a-part-near-far) [2](#a-part-1) [3](https://example.org/none.md#x) [4](sub/) `[5](none.md)`\n"
    "\n```\n[6](none.md) `coll/none.cpp`\n```\n",
    "docs/sub/page.md": "[up](../good.md#good) `src/coll/team.cpp` `coll/team.*` `team.cpp` `build/none/x.json`\n",
    "src/shm/kept.h": "struct KeptShm {\n};\nstruct UsedShm;\n",
    "src/coll/team.cpp": "// See docs/good.md, and docs/sub/page.md.\n",
}


def self_test() -> int:
    """Each planted fault is found, and nothing else is. Returns the number of surprises."""
    surprises = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = {name: text for name, (text, _) in PLANTED.items()} | CLEAN
        pages = [n.removeprefix("docs/") for n in texts if n.startswith("docs/") and n != "docs/lost.md"]
        texts["docs/README.md"] = "".join(f"- [{page}]({page})\n" for page in pages)
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        said = [what for _, _, what in check(root)]
        for name, (_, expected) in PLANTED.items():
            if said.count(expected) != 1:
                print(f"self-test: the fault planted in {name} was found {said.count(expected)} times")
                surprises += 1
        for what in said:
            if what not in [expected for _, expected in PLANTED.values()]:
                print(f"self-test: false alarm: {what}")
                surprises += 1
    return surprises


def main() -> int:
    parser = argparse.ArgumentParser(description="Links of the pages.")
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        surprises = self_test()
        print(f"check_links self-test: {len(PLANTED)} faults planted, {surprises} surprises")
        return 1 if surprises else 0
    found = check(ROOT)
    for path, number, what in found:
        print(f"{path}:{number}: {what}")
    pages = sum(name.endswith(".md") for name in files(ROOT))
    print(f"check_links: {len(found)} findings in {pages} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
