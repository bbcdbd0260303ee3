"""A figure's panels as SVG, in the paper's axes. Needs matplotlib."""

from __future__ import annotations

import io
import re
import textwrap

from zerohop.reproduce.show import interval, x_text

COLOURS = ("#555555", "#4c78a8", "#d1493f", "#54a24b", "#b79a20", "#9467bd", "#e377c2")
MARKERS = "os^Dvx+"  # as many as there are colours
LINES = ("-", "--", "-.", ":")  # series that are equal are all seen
COLUMNS = 2
WANTED = "plots need matplotlib: python3 -m pip install matplotlib; tables come without"


def pyplot(font_size: float = 8):
    """The module; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # Text stays text, and the same results give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zerohop", "font.size": font_size})
    return plt


def grid(plt, panels: int, most_columns: int, inches: tuple[float, float]):
    """A figure and the axes of so many panels, by rows."""
    columns = min(most_columns, panels)
    rows = -(-panels // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(inches[0] * columns, inches[1] * rows), squeeze=False)
    for place in axes.flatten()[panels:]:
        place.set_visible(False)
    return figure, axes


def draw(axes, panel: dict, order: list[str]) -> None:
    """`order`: all series of the figure, so that each has one colour."""
    names = list(panel["series"])
    xs = sorted({x for points in panel["series"].values() for x, _ in points}, key=lambda x: (isinstance(x, str), x))
    place = {x: i for i, x in enumerate(xs)}  # sizes are spaced evenly, as the papers have them
    for n, name in enumerate(names):
        style = order.index(name) % len(COLOURS)
        points = sorted(((place[x], interval(i)) for x, i in panel["series"][name]), key=lambda p: p[0])
        mids = [i.median for _, i in points]
        bars = [[i.median - i.low for _, i in points], [i.high - i.median for _, i in points]]
        at, colour = [p for p, _ in points], COLOURS[style]
        if any(isinstance(x, str) for x in xs):
            width = 0.8 / len(names)
            axes.bar([p - 0.4 + width * (n + 0.5) for p in at], mids, width, yerr=bars, label=name, color=colour)
        else:
            how = {"marker": MARKERS[style], "ls": LINES[style % len(LINES)], "mfc": "none", "ms": 4 + style}
            axes.errorbar(at, mids, yerr=bars, label=name, color=colour, lw=1.2, capsize=2, **how)
    axes.set_xticks(range(len(xs)), [x_text(x, panel["x"]) for x in xs])
    axes.set_xlabel(panel["x"])
    axes.set_ylabel(panel["y"])
    values = [i["median"] for points in panel["series"].values() for _, i in points]
    if values and min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
    axes.set_title(textwrap.fill(panel["title"], 62), fontsize=9)
    axes.legend(fontsize=7)


def svg_of(result: dict) -> str:
    """All panels beside each other; "" where there are none or matplotlib is missing."""
    panels = [p for p in result["panels"] if p["series"]]
    plt = pyplot() if panels else None
    if plt is None:
        return result["svg"]
    order = list(dict.fromkeys(name for p in panels for name in p["series"]))
    figure, axes = grid(plt, len(panels), COLUMNS, (5.2, 3.3))
    for place, panel in zip(axes.flatten(), panels, strict=False):
        draw(place, panel, order)
    figure.tight_layout()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    return out.getvalue()


def inline(svg: str, figure: str) -> str:
    """For a page of many: without a prologue that names files elsewhere, and with names of its own."""
    svg = svg[svg.find("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(id="|url\(#|href="#)', lambda m: f"{m[1]}{figure}-", svg)
    return svg
