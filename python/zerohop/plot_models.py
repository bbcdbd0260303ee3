"""Draws `zerohop model report --json` as one picture: measured and predicted times over the message size.

    python3 -m zerohop.plot_models report.json report.svg

One panel for each collective, algorithm, piece size, stride and number of ranks and nodes, after figures 3 and 4 of the
mlog_nP paper: the measured time with its 95 % interval, and each model's prediction, by the closed form where the paper
has one and by the walk elsewhere. Behind a model's name stands its mean error. Sizes in bytes, times in microseconds,
both axes logarithmic.

What `zerohop tune --model P --print-json` printed is drawn as a bar for each collective of its last table, with a
stretch for each algorithm from the size on at which it is the fastest. Needs matplotlib (dev/requirements-plots.txt).
Exit code 2 when the file holds neither.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

# Text stays text, and the same results give the same file.
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zerohop"})

SCHEMA = "zerohop-model-report/1"
COLOURS = {"log3P": "#b79a20", "2log{2,3}P": "#4c78a8", "mlog_nP": "#54a24b", "mlog_nP+links": "#9467bd"}
COLUMNS = 3


def panel_of(point: dict) -> str:
    """Title of the panel in which a point is drawn."""
    pieces = f"/{point['chunk_bytes']}" if point["chunk_bytes"] else ""
    where = f"{point['nodes']} x {point['ranks'] // point['nodes']} ranks"
    stride = f", stride {point['stride']}" if point.get("stride") else ""
    return f"{point['collective']} {point['algorithm']}{pieces}, {where}{stride}"


def prediction(point: dict, model: str) -> float | None:
    """A model's time for a point, by the closed form if it has one."""
    form = (point["closed_form_us"] or {}).get(model)
    return form if form is not None else (point["walk_us"] or {}).get(model)


def draw(axes: plt.Axes, title: str, points: list[dict]) -> None:
    points = sorted((p for p in points if p["bytes"] > 0), key=lambda p: p["bytes"])
    sizes = [p["bytes"] for p in points]
    measured = [p["measured_us"]["median"] for p in points]
    low = [p["measured_us"]["median"] - p["measured_us"]["low"] for p in points]
    high = [p["measured_us"]["high"] - p["measured_us"]["median"] for p in points]
    axes.errorbar(
        sizes, measured, yerr=[low, high], marker="s", ms=4, lw=2, capsize=3, color="#d1493f", label="measured"
    )
    for model, colour in COLOURS.items():
        known = [(p["bytes"], prediction(p, model), p["measured_us"]["median"]) for p in points]
        known = [(size, us, seen) for size, us, seen in known if us]
        if not known:
            continue
        error = sum(abs(us / seen - 1) for _, us, seen in known) / len(known)
        axes.plot(
            [size for size, _, _ in known],
            [us for _, us, _ in known],
            marker="o",
            ms=3,
            lw=1.1,
            color=colour,
            label=f"{model}, {100 * error:.1f} %",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("bytes")
    axes.legend(fontsize=7)


def draw_bars(document: dict) -> plt.Figure:
    """Who is fastest at which size, on a logarithmic axis from 8 B to 4 MiB."""
    table = document["tables"][-1]
    collectives = [c for c in reversed(table["collectives"]) if c["entries"]]
    names = list(dict.fromkeys(e["algorithm"] for c in collectives for e in c["entries"]))
    colours = dict(zip(names, plt.get_cmap("tab20").colors, strict=False))
    figure, axes = plt.subplots(figsize=(10, 0.45 * len(collectives) + 1.5))
    for y, collective in enumerate(collectives):
        starts = [math.log2(max(8, e["from_bytes"])) for e in collective["entries"]]
        for entry, start, end in zip(collective["entries"], starts, [*starts[1:], 22], strict=True):
            axes.barh(y, end - start, left=start, color=colours[entry["algorithm"]], edgecolor="white")
            if end - start > 0.13 * len(entry["algorithm"]):
                axes.text((start + end) / 2, y, entry["algorithm"], ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(collectives)), [c["collective"] for c in collectives])
    axes.set_xticks(range(3, 23, 3), ["8", "64", "512", "4K", "32K", "256K", "2M"])
    profile = document["profile"]["name"]
    axes.set_title(
        f"Fastest by {document['model']}: {table['ranks']} ranks on {table['nodes']} nodes, {profile}", fontsize=9
    )
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=colours[n]) for n in names], names, fontsize=6, ncols=2,
                loc="upper left", bbox_to_anchor=(1, 1))  # fmt: skip
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="file of zerohop model report --json")
    parser.add_argument("picture", type=Path, help="file to write (.svg)")
    arguments = parser.parse_args()
    document = json.loads(arguments.report.read_text())
    if document.get("tables"):
        draw_bars(document).savefig(arguments.picture, metadata={"Date": None}, bbox_inches="tight")
        return 0
    if document.get("schema") != SCHEMA or not document.get("points"):
        print(f"{arguments.report}: no points of `zerohop model report --json`", file=sys.stderr)
        return 2
    panels: dict[str, list[dict]] = defaultdict(list)
    for point in document["points"]:
        panels[panel_of(point)].append(point)
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.4 * rows), squeeze=False)
    places = axes.flatten()
    for place, (title, points) in zip(places, panels.items(), strict=False):
        draw(place, title, points)
    for place in places[len(panels) :]:
        place.set_visible(False)
    for row in axes:
        row[0].set_ylabel("µs")
    figure.tight_layout()
    figure.savefig(arguments.picture, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
