"""The command line of `zerohop compare`: two runs side by side."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from zerohop.command_line import Parser
from zerohop.report import MEASURE, text
from zerohop.report.__main__ import about, refuse, section_text, write_page
from zerohop.report.document import MOST, Refused, join
from zerohop.report.sections import BUSY, bars, below, classes_of, section, table
from zerohop.report.summary import WAITS, summary_of

ABOUT = f"""What changed between two runs: the whole time, then changes by their share of all that is of their kind,
such as of the time in MPI. Times are compared where both runs measured them (`{MEASURE}`).

    zerohop compare before.json after.json                 the table here
    zerohop compare before.json after.json -o both.html    and as a page
"""
CODES = "Exit code: 0; 1 where the page could not be made; 2 for a wrong word or file."
UNLIKE = {"command": "commands", "world_size": "numbers of ranks", "nodes": "numbers of nodes", "host": "MPI libraries",
          "host_version": "MPI libraries", "end": "ends"}  # fmt: skip
Values = dict[str, float]


def parser() -> Parser:
    p = Parser("zerohop compare", ABOUT, CODES)
    p.add_argument("--zerohop", default="zerohop", help=argparse.SUPPRESS)
    p.add_argument("before", metavar="a.json", help="a file of ZEROHOP_STATS")
    p.add_argument("after", metavar="b.json", help="another one")
    p.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the page as well")
    p.add_argument("--json", action="store_true", help="print the changes as JSON instead")
    return p


def timed_values(s: dict) -> dict[tuple[str, str], Values]:
    t = s["time"]
    calls = {c["call"]: c["seconds"] for c in t["calls"]}
    waits = {what: t["waits"][kind]["seconds"] for kind, what in WAITS.items()}
    return {
        ("time", "s"): {"wall": t["wall_s"]}, ("time in MPI", "s"): calls,
        ("waiting", "s"): waits | {text: t[key] for key, text in BUSY.items()},
    }  # fmt: skip


def values_of(s: dict, *, timed: bool) -> dict[tuple[str, str], Values]:
    """Numbers of a run by kind and unit."""
    ways, heap = s["sent"]["ways"], s["heap"] or {}
    collectives: Values = {}
    for c in s["collectives"]:
        name = f"{c['call']} by {c['by']}"
        collectives[name] = collectives.get(name, 0) + c["calls"]
    return {
        **(timed_values(s) if timed else {("from start to end", "s"): {"dates": s["job"]["seconds"]}}),
        ("bytes sent", "bytes"): {w["way"]: w["bytes"] for w in ways},
        ("messages", "count"): {w["way"]: w["messages"] for w in ways},
        ("collectives", "count"): collectives,
        ("left to the MPI library", "count"): {f["reason"]: f["times"] for f in s["fallbacks"]},
        ("shared memory", "bytes"): {k: heap.get(k, 0) for k in ("adopted_bytes", "declined_bytes", "returned_bytes")},
    }  # fmt: skip


def changes_of(a: dict, b: dict) -> list[dict]:
    """What is not the same: the whole time, then by the share of its kind. `ratio`: None from nothing."""
    timed = a["time"] is not None and b["time"] is not None
    left, right = values_of(a, timed=timed), values_of(b, timed=timed)
    found = []
    for kind, unit in left:
        before, after = left[kind, unit], right[kind, unit]
        whole = max(sum(before.values()), sum(after.values()))
        for name in dict.fromkeys([*before, *after]):
            x, y = before.get(name, 0), after.get(name, 0)
            if x != y:
                row = {"kind": kind, "what": name, "unit": unit, "a": x, "b": y, "change": y - x}
                found.append(row | {"ratio": y / x if x else None, "share": abs(y - x) / whole})
    return sorted(found, key=lambda c: (c["kind"] not in ("time", "from start to end"), -c["share"]))


def warnings_of(a: dict, b: dict) -> list[str]:
    """How the runs are not alike."""
    found = {}
    for key, what in UNLIKE.items():
        x, y = a["job"][key], b["job"][key]
        if x != y:
            found.setdefault(what, f"The runs have different {what}: {x or 'not told'} and {y or 'not told'}.")
    if (a["time"] is None) != (b["time"] is None):
        found["time"] = f"Only one of the runs measured its time (`{MEASURE}`), so times are not compared."
    return list(found.values())


def cells_of(c: dict) -> list[str | tuple[float, str]]:
    """A change as a row of the table."""
    change = ("+" if c["change"] > 0 else "-") + text.shown(abs(c["change"]), c["unit"])
    percent = "new" if c["ratio"] is None else f"{100 * (c['ratio'] - 1):+,.0f} %"
    sides = [(c[side], text.shown(c[side], c["unit"])) for side in ("a", "b")]
    return [c["kind"], c["what"], *sides, (c["change"], change), (c["ratio"] or MOST, percent)]


def sections_of(a: dict, b: dict, changes: list[dict]) -> list[dict]:
    heads = [("kind", ""), ("what", ""), ("a", "count"), ("b", "count"), ("change", "count"), ("percent", "count")]
    rows = [cells_of(c) for c in changes]
    found = [section("changes", "What changed", "", table("a, b and the change", heads, rows),
                     notes=() if rows else ("Nothing that was counted changed.",))]  # fmt: skip
    pictures = []
    if a["time"] and b["time"]:
        names = [c["call"] for c in (a if a["time"]["mpi_s"] > b["time"]["mpi_s"] else b)["time"]["calls"][:12]]
        series = {side: [sum(c["seconds"] for c in s["time"]["calls"] if c["call"] == n) for n in names]
                  for side, s in (("a", a), ("b", b))}  # fmt: skip
        pictures.append(bars("calls", "seconds in MPI of all ranks", "call", names, {"s": series}))
    classes = classes_of(r["below_bytes"] for s in (a, b) for w in s["sent"]["ways"] for r in w["sizes"])
    if classes:
        sums = {key: {side: [sum(r[key] for w in s["sent"]["ways"] for r in w["sizes"] if r["below_bytes"] == c)
                             for c in classes] for side, s in (("a", a), ("b", b))}
                for key in ("bytes", "messages")}  # fmt: skip
        pictures.append(
            bars("sizes", "sent, by size of the message", "bytes of a message", [*map(below, classes)], sums)
        )
    pictures = [p | {"grouped": True} for p in pictures]
    return [*found, section("both", "Side by side", "", *pictures)]


def main() -> int:
    arguments = parser().parse_args()
    try:
        a, b = (summary_of(join([path])) for path in (arguments.before, arguments.after))
    except Refused as why:
        return refuse("compare", why, 2)
    changes, warnings = changes_of(a, b), warnings_of(a, b)
    sections, width = sections_of(a, b, changes), text.columns()
    runs = [f"a: {arguments.before}: {about(a['job'])}", f"b: {arguments.after}: {about(b['job'])}"]
    if arguments.json:
        jobs = {"a": a["job"], "b": b["job"]}
        print(json.dumps({"schema": "zerohop-compare/1"} | jobs | {"warnings": warnings, "changes": changes}, indent=1))
    else:
        print(*(text.wrapped(line, width, "", "  ") for line in [*runs, *warnings]), sep="\n")
        print(section_text(sections[0], width))
    if arguments.output:
        sys.stdout.flush()
        lines = warnings or ["The runs are alike: command, ranks, nodes and MPI library are the same."]
        about_runs = ("; ".join(runs), ("Are they alike?", ""), lines, sections)
        return refuse("compare", *write_page(arguments.output, "Two runs", *about_runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
