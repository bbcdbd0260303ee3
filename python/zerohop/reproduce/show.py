"""A figure's result as text, and the closing table. A result is what store.py keeps of it."""

from __future__ import annotations

import shlex
import textwrap

from zerohop.interval import Interval
from zerohop.model_report import size, table
from zerohop.report.text import columns
from zerohop.reproduce.describe import DRAWN, IMPOSSIBLE, SIMULATED, Figure
from zerohop.reproduce.judge import FAILS, HOLDS, OPEN

NOT_HERE = "not possible here"
FAILED = "failed"


def wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, columns(), subsequent_indent=indent or "  ")


def first_line(figure: Figure, result: dict) -> str:
    """What it is and how it was had, or why not."""
    if result["kind"] == IMPOSSIBLE:
        return f"{figure.id}: not possible here: {result['why']}"
    how = {SIMULATED: "simulated", DRAWN: "a drawing"}.get(result["kind"], "measured here")
    return f"{figure.id}: {how}: {figure.here}"


def x_text(x: float | str, axis: str) -> str:
    return size(x) if axis == "bytes" and isinstance(x, (int, float)) else x if isinstance(x, str) else f"{x:g}"


def interval(values: dict) -> Interval:
    return Interval(**values)


def panel_rows(panel: dict) -> list[list[str]]:
    names = list(panel["series"])
    xs = list(dict.fromkeys(x for points in panel["series"].values() for x, _ in points))
    rows = [[f"{panel['x']}", *(f"{n}, {panel['y']}" if panel["y"] else n for n in names)]]
    for x in xs:
        by_name = {n: dict(points) for n, points in panel["series"].items()}
        cells = [interval(by_name[n][x]).text() if x in by_name[n] else "-" for n in names]
        rows.append([x_text(x, panel["x"]), *cells])
    return rows


def panel_text(panel: dict) -> str:
    return f"\n{panel['title']}\n{table(panel_rows(panel))}"


def command_text(words: list[str]) -> str:
    return shlex.join(["zerohop", *words])


def finding_text(found: dict) -> str:
    return f"{found['what']}: {found['state']}{', because' if found['state'] != 'holds' else ':'} {found['because']}"


def about(figure: Figure) -> str:
    return f"{figure.source}: {figure.shows}. The paper: {figure.headline}."


def figure_text(figure: Figure, result: dict) -> str:
    lines = [wrap(first_line(figure, result)), wrap(f"  {about(figure)}", "    ")]
    lines += [panel_text(p).rstrip() for p in result["panels"]]
    lines += [""] if result["panels"] else []
    lines += [wrap(f"- {note}", "  ") for note in result["notes"]]
    lines += [wrap(finding_text(f), "    ") for f in result["findings"]]
    if result["kind"] not in (IMPOSSIBLE, DRAWN):
        lines.append(f"{figure.id} {result['state']}{': ' + result['why'] if result['why'] else ''}")
    return "\n".join(lines) + "\n"


def closing_rows(figures: list[Figure], results: dict[str, dict]) -> list[list[str]]:
    rows = [["figure", "finding", "paper", "here", "holds"]]
    for figure in figures:
        result = results.get(figure.id)
        if result is None:
            rows.append([figure.id, figure.headline, "", "-", FAILED])
            continue
        if not result["findings"] and result["kind"] != DRAWN:
            state = NOT_HERE if result["kind"] == IMPOSSIBLE else result["state"]
            rows.append([figure.id, figure.headline, "", "-", state])
        for f in result["findings"]:
            here = interval(f["ours"]).text() if f["ours"] else "-"
            beyond = ", far above the paper's" if f["beyond"] else ""
            rows.append([figure.id, f["what"], f["paper_text"], here, f["state"] + beyond])
    return rows


def closing_text(figures: list[Figure], results: dict[str, dict]) -> str:
    rows = closing_rows(figures, results)
    states = (HOLDS, FAILS, OPEN, NOT_HERE, FAILED)
    counts = {state: sum(row[4].startswith(state) for row in rows[1:]) for state in states}
    return "\n" + table(rows, 3) + ", ".join(f"{state}: {n}" for state, n in counts.items()) + "\n"


def list_text(figures: list[Figure]) -> str:
    lines = []
    for f in figures:
        long = f"about {f.minutes:g} min" if f.minutes else ""
        lines.append(f"{f.id:<13} {f.kind:<16} {long}".rstrip())
        lines.append(wrap(f"    {about(f)}", "    "))
        lines.append(wrap(f"    {'why: ' if f.kind == IMPOSSIBLE else 'here: '}{f.here}", "    "))
    return "\n".join(lines) + "\n"
