#!/usr/bin/env python3
"""Checks that every synchronizing atomic operation in src names the other end of its edge.

A non-relaxed operation of zh::Atomic (load_acquire, store_release, cas_acq_rel, fetch_add_acq_rel, ...,
fence_seq_cst) carries a label comment, on its line or on one of the few comment lines just above:
    // R1 -> A1: payload visible before seq          at the store that releases (R1), towards the load (A1)
    // A1 <- R1: the payload of this seq             at the load that acquires; `A1 -> R1` is accepted as well
The two names together are the edge. Each edge must have at least one releasing and one acquiring operation: in the
same folder
of src, or else anywhere in src (an edge that crosses layers). An operation that both acquires and releases
counts as both.

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
LABEL = re.compile(r"\b([A-Z]{1,4}\d{1,3})\s*(?:->|<-|→|←)\s*([A-Z]{1,4}\d{1,3})\b")


@dataclasses.dataclass
class Site:
    path: str
    line: int
    operation: str
    releases: bool
    acquires: bool
    edges: list[frozenset[str]]

    @property
    def folder(self) -> str:
        return self.path.rsplit("/", 1)[0]


def labels(text: str) -> list[frozenset[str]]:
    """Edges named in the comment part of a line."""
    comment = text.split("//", 1)
    return [frozenset(m.groups()) for m in LABEL.finditer(comment[1])] if len(comment) == 2 else []


def edges_for(lines: list[str], index: int) -> list[frozenset[str]]:
    """Edges of the operation in lines[index]: its own comment, else the nearest comment above within the same
    paragraph."""
    found = labels(lines[index])
    for above in range(index - 1, max(-1, index - 1 - WINDOW_LINES), -1):
        if found or not lines[above].strip():
            break
        if lines[above].lstrip().startswith("//"):
            found = labels(lines[above])
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
            result.append(
                Site(
                    path,
                    index + 1,
                    name,
                    both or order == "release",
                    both or order == "acquire",
                    edges_for(lines, index),
                )
            )
    return result


def check(sources: Iterable[tuple[str, str]]) -> tuple[list[str], int]:
    """Findings, and the number of operations seen."""
    every = [site for path, text in sources for site in sites(path, text)]
    findings = []
    by_edge: dict[frozenset[str], list[Site]] = defaultdict(list)
    for site in every:
        if not site.edges:
            findings.append(
                f"{site.path}:{site.line}: {site.operation} has no label comment such as `// R1 -> A1: why`"
            )
        for edge in site.edges:
            by_edge[edge].append(site)
    for edge, users in by_edge.items():
        for site in users:
            near = [s for s in users if s.folder == site.folder]
            if not paired(near, site) and not paired(users, site):
                name = "/".join(sorted(edge))
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
    crossing = [
        ("src/p2p/a.cpp", "d.store_release(1);  // D0 -> D1\n"),
        ("src/engine/b.cpp", "d.load_acquire();  // D1 <- D0\n"),
    ]
    if check(crossing)[0]:
        print("self-test: an edge across folders was not paired")
        surprises += 1
    return surprises


def main() -> int:
    parser = argparse.ArgumentParser(description="Labels of synchronizing operations.")
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        surprises = self_test()
        print(f"check_sync_labels self-test: {len(PLANTED)} violations planted, {surprises} surprises")
        return 1 if surprises else 0
    findings, seen = check(source_files())
    print("\n".join(findings) if findings else "", end="\n" if findings else "")
    print(f"check_sync_labels: {seen} synchronizing operations, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
