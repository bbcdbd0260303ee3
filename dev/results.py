#!/usr/bin/env python3
"""Compares the measured tables of README.md and docs/results/README.md with docs/results/two-ranks.json.

    dev/results.py                                                         exits 1 where a page says something else
    dev/results.py --write                                                 writes the tables
    dev/results.py --from out.json --machine "an AMD cloud VM of two processors"   keeps a run first

`out.json`: what `zerohop python by_placement --json out.json` wrote, of bare hosts and of zerohop under Open MPI.
A table stands between `<!-- results:<name> -->` and `<!-- results:end -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "results" / "two-ranks.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results" / "README.md")
BLOCK = re.compile(r"(<!-- results:(?!end)([\w-]+) -->\n).*?(<!-- results:end -->)", re.DOTALL)
NAMES = {"impi": "Intel MPI", "openmpi": "Open MPI", "mpich": "MPICH"}
PLACES = ("near", "far")
KEPT_KEYS = ("bench", "metric", "size", "buffers", "placement", "rounds",
             "zerohop", "peers", "best_peer", "to_best_peer", "to_own_host")  # fmt: skip
WORDS = {"latency": "one way", "noreuse": "buffers used once", "rate": "rate", "bidirectional": "both ways"}

Rows = dict[tuple[str, int, str], dict]  # by benchmark, size, placement


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(us: float) -> str:
    return f"{us:.0f}" if us >= 100 else f"{us:#.3g}" if us >= 1 else f"{us:.3f}"


def ratio_text(row: dict) -> str:
    ratio = row["to_best_peer"]
    bounds = f"[{ratio['low']:.2f}–{ratio['high']:.2f}]" if ratio["valid"] else "[?]"
    return f"{ratio['median']:.2f} {bounds}"


def table(heads: list[str], lines: list[list[str]]) -> list[str]:
    head, *rest = ["| " + " | ".join(cells) + " |" for cells in (heads, *lines)]
    return [head, "|---" * len(heads) + "|", *rest]


def sizes(rows: Rows, bench: str) -> list[int]:
    return sorted({size for name, size, _ in rows if name == bench})


def times(rows: Rows, benches: list[tuple[str, int]], places: tuple[str, ...]) -> list[list[str]]:
    """Peers, zerohop, ratio at each placement."""
    lines = []
    for bench, size in benches:
        cells = []
        for place in places:
            row = rows.get((bench, size, place))
            if row is None:
                cells += ["–"] * (len(peers(rows)) + 2)
                continue
            cells += [time_text(row["peers"][p]["median"]) if p in row["peers"] else "–" for p in peers(rows)]
            cells += [time_text(row["zerohop"]["median"]), ratio_text(row)]
        lines.append([f"rate, {size_text(size)}" if bench == "rate" else size_text(size), *cells])
    return lines


def peers(rows: Rows) -> list[str]:
    return sorted({p for row in rows.values() for p in row["peers"]})


def heads(rows: Rows, first: str, places: tuple[str, ...]) -> list[str]:
    names = [NAMES[p] for p in peers(rows)]
    return [first] + [f"{place}: {names[0]}" if i == 0 else n for place in places
                      for i, n in enumerate([*names, "zerohop", "/ best peer"])]  # fmt: skip


def spans(rows: Rows, ratio: str, *, gain: bool) -> str:
    """Where the whole interval is below 1, or above: by benchmark and placement, with the least and greatest median."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for (bench, size, place), row in sorted(rows.items()):
        if row[ratio]["valid"] and (row[ratio]["high"] < 1 if gain else row[ratio]["low"] > 1):
            found[bench, place].append((size, row[ratio]["median"]))
    texts = []
    for (bench, place), points in found.items():
        of = sizes(rows, bench)
        parts: list[list[int]] = []
        for size, _ in points:
            if parts and of.index(size) == of.index(parts[-1][-1]) + 1:
                parts[-1].append(size)
            else:
                parts.append([size])
        where = ", ".join(size_text(p[0]) + (f" to {size_text(p[-1])}" if len(p) > 1 else "") for p in parts)
        least, most = min(r for _, r in points), max(r for _, r in points)
        ratios = f"{least:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"{least:.2f} to {most:.2f}"
        texts.append(f"{WORDS[bench]} {place}, {where}: {ratios}")
    return "; ".join(texts) if texts else "nowhere"


def filled(text: str) -> list[str]:
    """Within 120 columns."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > 120:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def blocks(kept: dict) -> dict[str, str]:
    rows: Rows = {(r["bench"], r["size"], r["placement"]): r for r in kept["rows"]}
    one_way = [("latency", s) for s in sizes(rows, "latency")]
    both = [("rate", s) for s in sizes(rows, "rate")] + [("bidirectional", s) for s in sizes(rows, "bidirectional")]
    once = [("noreuse", s) for s in sizes(rows, "noreuse")]
    places = tuple(p for p in PLACES if any(place == p for _, _, place in rows))
    counts = {p: [r["rounds"] for r in rows.values() if r["placement"] == p] for p in places}
    launches = ", ".join(f"{p} {min(of)} to {max(of)} launches" for p, of in counts.items())
    return {
        "summary": [
            *filled(
                "zerohop's time / that of the fastest other MPI, where the 95 % interval holds no 1. "
                f"**Gains:** {spans(rows, 'to_best_peer', gain=True)}."
            ),
            "",
            *filled(
                f"**Losses:** {spans(rows, 'to_best_peer', gain=False)}. Slower than the host in the same job: "
                f"{spans(rows, 'to_own_host', gain=False)}."
            ),
        ],
        "origin": filled(
            f"{kept['date']}, {kept['machine']}, which are now two cores (*far*), now one (*near*; "
            f"{launches}); default settings, zerohop over Open MPI, µs."
        ),
        "one-way": table(heads(rows, "size", places[::-1]), times(rows, one_way, places[::-1])),
        "both-ways": table(heads(rows, "", places), times(rows, both, places)),
        "used-once": table(heads(rows, "one way", places), times(rows, once, places)),
    }


def written(page: str, texts: dict[str, str]) -> str:
    return BLOCK.sub(lambda m: m[1] + "\n".join(["", *texts[m[2]], "", ""]) + m[3], page)


def keep(run: Path, machine: str) -> None:
    rows = [{k: row[k] for k in KEPT_KEYS} for row in json.loads(run.read_text())["rows"]
            if row["bench"] in WORDS and row["metric"] == "time_us" and row["best_peer"] and row["buffers"] == "malloc"
            and row["placement"] in PLACES]  # fmt: skip
    date = datetime.fromtimestamp(run.stat().st_mtime, UTC).date().isoformat()
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    head = f'"date": {json.dumps(date)}, "machine": {json.dumps(machine)}'
    KEPT.write_text(f'{{{head}, "rows": [\n{lines}\n]}}\n')


def self_test(texts: dict[str, str]) -> int:
    found = set()
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            digit = re.search(r"[0-8]", block[0].removeprefix(block[1]))
            at = block.start() + len(block[1]) + digit.start()
            wrong = text[:at] + "9" + text[at + 1 :]
            if written(wrong, texts) == text:
                found.add(block[2])
    missed = set(texts) - found
    print(f"{len(found)} passed, {len(missed)} failed" + "".join(f"\nnot found: {name}" for name in sorted(missed)))
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="run", type=Path, help="a run's JSON to keep")
    parser.add_argument("--machine", default="a cloud VM of two processors")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true", help="a wrong digit in any table must be found")
    arguments = parser.parse_args()
    if arguments.run:
        keep(arguments.run, arguments.machine)
    texts = blocks(json.loads(KEPT.read_text()))
    if arguments.self_test:
        return self_test(texts)
    stale = 0
    for page in PAGES:
        text = page.read_text()
        now = written(text, texts)
        if now != text and (arguments.write or arguments.run):
            page.write_text(now)
        elif now != text:
            print(f"{page.relative_to(ROOT)}: not as {KEPT.relative_to(ROOT)}: run dev/results.py --write")
            stale += 1
    print(f"{len(PAGES) - stale} passed, {stale} failed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
