#!/usr/bin/env python3
"""Checks that every synchronizing atomic operation in src names the other end of its edge.

A non-relaxed operation of zh::Atomic (load_acquire, store_release, cas_acq_rel, fetch_add_acq_rel, ...,
fence_seq_cst) carries a label comment, on its line or on one of the few comment lines just above:
    // R1 -> A1: payload visible before seq          at the store that releases (R1), towards the load (A1)
    // A1 <- R1: the payload of this seq             at the load that acquires; `A1 -> R1` is accepted as well
The two names together are the edge. Each edge must have at least one releasing and one acquiring operation, in one
folder of src or in the folders of CROSSINGS. An operation that both acquires and releases counts as both. A name
belongs to one folder alone. A label without its operation is a finding too: so an operation that is made relaxed
leaves a trace.

Prints file:line: what, exits 1 on any. `--self-test` plants violations and proves that they are found.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = "src/base/atomic.h"  # defines the operations
WINDOW_LINES = 5  # how far above the operation its label may stand

OPERATION = re.compile(
    r"(?:\.|->|\b)((?:load|store|exchange|cas|compare_exchange|fetch_(?:add|sub|or|and|xor))(?:_weak|_strong)?_"
    r"(acquire|release|acq_rel|seq_cst))\s*\(|\b(fence_seq_cst)\s*\("
)
# Functions whose body is one labelled operation: their calls may carry its label.
WRAPPERS = re.compile(r"(?:\.|->)(?:load_state|store_matched)\s*\(")
# Edges whose ends lie in different folders.
CROSSINGS = {
    frozenset(("D0", "D1")): {"src/engine", "src/p2p"},
    frozenset(("X0", "X1")): {"src/copy", "src/shm"},
}
LABEL = re.compile(r"\b([A-Z]{1,4}\d{1,3})\s*(?:->|<-|→|←)\s*([A-Z]{1,4}\d{1,3})\b")


@dataclasses.dataclass
class Site:
    path: str
    line: int
    operation: str
    releases: bool
    acquires: bool
    edges: list[frozenset[str]]
    label_lines: list[int]

    @property
    def folder(self) -> str:
        return self.path.rsplit("/", 1)[0]


def labels(text: str) -> list[frozenset[str]]:
    """Edges named in the comment part of a line."""
    comment = text.split("//", 1)
    return [frozenset(m.groups()) for m in LABEL.finditer(comment[1])] if len(comment) == 2 else []


def label_lines(lines: list[str], index: int) -> list[int]:
    """Where the labels of the operation in lines[index] stand: in its own comment, else in the nearest comment lines
    above within the same paragraph."""
    if labels(lines[index]):
        return [index]
    found: list[int] = []
    for above in range(index - 1, max(-1, index - 1 - WINDOW_LINES), -1):
        comment = lines[above].lstrip().startswith("//")
        if not lines[above].strip() or (found and not comment):
            break
        if comment and labels(lines[above]):
            found.append(above)
    return found


def sites(path: str, text: str) -> list[Site]:
    if path == HOME:
        return []
    lines = text.splitlines()
    result = []
    for index, line in enumerate(lines):
        for match in OPERATION.finditer(line.split("//", 1)[0]):
            name = match[1] or match[3]
            order = match[2] or "seq_cst"
            both = order in ("acq_rel", "seq_cst")
            where = label_lines(lines, index)
            result.append(
                Site(
                    path,
                    index + 1,
                    name,
                    both or order == "release",
                    both or order == "acquire",
                    [edge for at in where for edge in labels(lines[at])],
                    where,
                )
            )
    return result


def lone_labels(path: str, text: str, here: list[Site]) -> list[str]:
    """Labels that belong to no operation, and those that several operations share."""
    if path == HOME:
        return []
    users: dict[int, int] = defaultdict(int)
    for site in here:
        for at in site.label_lines:
            users[at] += 1
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if WRAPPERS.search(line.split("//", 1)[0]):
            for at in label_lines(lines, index):
                users[at] += 1
    findings = []
    for index, line in enumerate(lines):
        if labels(line) and users[index] == 0:
            findings.append(f"{path}:{index + 1}: a label without an operation that synchronizes")
        if users[index] > 1:
            findings.append(f"{path}:{index + 1}: one label for {users[index]} operations")
    return findings


def check(sources: Iterable[tuple[str, str]]) -> tuple[list[str], int]:
    """Findings, and the number of operations seen."""
    every = []
    findings = []
    for path, text in sources:
        here = sites(path, text)
        every += here
        findings += lone_labels(path, text, here)
    by_edge: dict[frozenset[str], list[Site]] = defaultdict(list)
    for site in every:
        if not site.edges:
            findings.append(
                f"{site.path}:{site.line}: {site.operation} has no label comment such as `// R1 -> A1: why`"
            )
        for edge in site.edges:
            by_edge[edge].append(site)
    for edge, users in by_edge.items():
        name = "/".join(sorted(edge))
        folders = {site.folder for site in users}
        if len(folders) > 1 and not folders <= CROSSINGS.get(edge, set()):
            findings.append(f"{users[0].path}:{users[0].line}: edge {name} is in {', '.join(sorted(folders))}")
        for site in users:
            if not paired(users, site):
                end = "acquires" if site.releases and not site.acquires else "releases"
                findings.append(f"{site.path}:{site.line}: {site.operation}: edge {name} has no other end that {end}")
    return sorted(findings), len(every)


def paired(users: list[Site], site: Site) -> bool:
    """Whether some operation among `users`, other than `site` unless it does both, is the other end of `site`."""
    others = [s for s in users if s is not site] or [site]
    if len(others) == 1 and others[0] is site:
        return site.releases and site.acquires  # a counter that every thread updates with one acq_rel operation
    if site.releases and site.acquires:
        return any(s.releases or s.acquires for s in others)
    return any(s.acquires if site.releases else s.releases for s in others)


def source_files() -> list[tuple[str, str]]:
    folder = ROOT / "src"
    paths = sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cpp"))
    return [(str(p.relative_to(ROOT)), p.read_text()) for p in paths]


PLANTED = [
    ("no label", "src/shm/a.h", "x.store_release(1);\n", "has no label"),
    ("no label on fence", "src/shm/a.h", "fence_seq_cst();\n", "has no label"),
    ("no other end", "src/shm/a.h", "x.store_release(1);  // R1 -> A1: why\n", "no other end that acquires"),
    ("acquire alone", "src/shm/a.h", "x.load_acquire();  // A1 -> R1: why\n", "no other end that releases"),
    (
        "two releases",
        "src/shm/a.h",
        "a.store_release(1);  // R1 -> A1\nb.store_release(1);  // A1 -> R1\n",
        "no other end",
    ),
    ("label beyond a blank line", "src/shm/a.h", "// R1 -> A1: why\n\nx.store_release(1);\n", "has no label"),
    ("label of a relaxed operation", "src/shm/a.h", "x.store_relaxed(1);  // R1 -> A1: why\n", "a label without"),
    (
        "one label for two",
        "src/shm/a.h",
        "// R1 -> A1: why\nx.store_release(1), y.store_release(1);\n\nz.load_acquire();  // A1 <- R1\n",
        "one label for 2",
    ),
    ("label in a string", "src/shm/a.h", 'f("R1 -> A1"), x.store_release(1);\n', "has no label"),
]
CLEAN = (
    "// R1 -> A1: payload\nx->seq.store_release(1);\n\nif (x->seq.load_acquire() == 1) {  // A1 <- R1\n\n"
    "// C1 -> C1: every update sees the ones before\nn.fetch_add_acq_rel(1);\n\ny.load_relaxed();\n"
)


def self_test() -> int:
    surprises = 0
    for what, path, text, expected in PLANTED:
        findings, _ = check([(path, text)])
        if not any(expected in f for f in findings):
            print(f"self-test: not found: {what}")
            surprises += 1
    findings, seen = check([("src/shm/a.h", CLEAN.replace("C1 -> C1", "C1 -> C2"))])
    if findings or seen != 3:
        print(f"self-test: false alarm {findings}, {seen} operations seen")
        surprises += 1
    for names, expected in ((("D0", "D1"), False), (("Q0", "Q1"), True)):
        crossing = [
            ("src/p2p/a.cpp", f"d.store_release(1);  // {names[0]} -> {names[1]}\n"),
            ("src/engine/b.cpp", f"d.load_acquire();  // {names[1]} <- {names[0]}\n"),
        ]
        if bool(check(crossing)[0]) != expected:
            print(f"self-test: an edge across folders: {names}")
            surprises += 1
    return surprises + weaken_each()


def weaken_each() -> int:
    """Makes each operation of src relaxed, alone: how many of these changes nobody would notice."""
    unnoticed = 0
    for path, text in source_files():
        for site in sites(path, text):
            lines = text.splitlines()
            code, comment, rest = lines[site.line - 1].partition("//")
            weak = (
                "f"
                if site.operation.startswith("fence")
                else re.sub("_(acquire|release|acq_rel)$", "_relaxed", site.operation)
            )
            lines[site.line - 1] = re.sub(rf"\b{site.operation}\b", weak, code, count=1) + comment + rest
            changed = "\n".join(lines)
            if not lone_labels(path, changed, sites(path, changed)):
                print(f"self-test: nobody would notice {path}:{site.line}: {site.operation} made relaxed")
                unnoticed += 1
    return unnoticed


def main() -> int:
    parser = argparse.ArgumentParser(description="Labels of synchronizing operations.")
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        surprises = self_test()
        print(
            f"check_sync_labels self-test: {len(PLANTED)} violations planted, each operation weakened, "
            f"{surprises} surprises"
        )
        return 1 if surprises else 0
    findings, seen = check(source_files())
    print("\n".join(findings) if findings else "", end="\n" if findings else "")
    print(f"check_sync_labels: {seen} synchronizing operations, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
