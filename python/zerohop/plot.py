"""Draws what a benchmark or a model wrote as JSON as one picture, by what the file holds.

    zerohop python plot p2p.json latency.svg

- `zerohop bench p2p --json`: one panel for each placement (near, far) and kind of buffer that has latency rows: one-way
  time of every MPI over the message size, relative to the best peer at that size, with the 95 % interval of zerohop's
  paired ratio.
- `zerohop model report --json`: one panel for each collective, algorithm, piece size, stride and number of ranks and
  nodes, after figures 3 and 4 of the mlog_nP paper: the measured time with its 95 % interval, and each model's
  prediction, by the closed form where the paper has one and by the walk elsewhere. Behind a model's name stands its
  mean error. Both axes are logarithmic.
- `zerohop tune --model P --print-json`: a bar for each collective of its last table, with a stretch for each algorithm
  from the size on at which it is the fastest.

Sizes are in bytes, times in microseconds. Needs matplotlib (dev/requirements-plots.txt). Exit code 2 when the file
holds nothing of it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from pathlib import Path

from zerohop.command_line import Parser, read_object
from zerohop.model_report import SCHEMA, size
from zerohop.reproduce import plots

plt = plots.pyplot(font_size=10)

HOST_COLOURS = {"impi": "#4c78a8", "mpich": "#b79a20", "openmpi": "#54a24b"}
HOST_NAMES = {"impi": "Intel MPI", "mpich": "MPICH", "openmpi": "Open MPI"}
BUFFERS = {"malloc": "malloc", "static": "static arrays", "alloc_mem": "MPI_Alloc_mem"}
MODEL_COLOURS = {"log3P": "#b79a20", "2log{2,3}P": "#4c78a8", "mlog_nP": "#54a24b", "mlog_nP+links": "#9467bd"}
MEASURED = "#d1493f"
MOST = 3  # times the best peer's time; what is above stands at the edge, with its number
MIN_ROUNDS = 4  # a panel of fewer says nothing
COLUMNS = 3


def draw_measured(axes: plt.Axes, xs: list, intervals: list[dict], **how) -> None:
    """Medians with their intervals."""
    low = [i["median"] - i["low"] for i in intervals]
    high = [i["high"] - i["median"] for i in intervals]
    axes.errorbar(xs, [i["median"] for i in intervals], yerr=[low, high], marker="s", capsize=3, color=MEASURED, **how)


# ---- latencies


def latency_panels(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Latency rows by (placement, buffers), by size."""
    found: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in rows:
        is_latency = row["bench"] == "latency" and row["metric"] == "time_us"
        if is_latency and row["rounds"] >= MIN_ROUNDS and row["best_peer"]:
            found[row["placement"], row["buffers"]].append(row)
    return {key: sorted(found[key], key=lambda r: r["size"]) for key in sorted(found, reverse=True)}


def draw_latencies(axes: plt.Axes, title: str, rows: list[dict]) -> None:
    best = [row["peers"][row["best_peer"]]["median"] for row in rows]
    for n, host in enumerate(sorted({host for row in rows for host in row["peers"]})):
        points = [(i, row["peers"][host]["median"] / best[i]) for i, row in enumerate(rows) if host in row["peers"]]
        label, colour = HOST_NAMES.get(host, host), HOST_COLOURS.get(host)
        (line,) = axes.plot(*zip(*points, strict=True), marker="o", ms=4, lw=1.2, color=colour, label=label)
        for i, ratio in points:
            if ratio > MOST:
                axes.plot(i, MOST, marker="^", ms=6, color=line.get_color(), clip_on=False)
                below = {"textcoords": "offset points", "xytext": (0, -10 - 8 * n), "ha": "center", "fontsize": 7}
                axes.annotate(f"{ratio:.3g}", (i, MOST), color=line.get_color(), **below)
    draw_measured(axes, range(len(rows)), [row["to_best_peer"] for row in rows], ms=5, lw=2.2, label="zerohop")
    axes.axhline(1, color="#888888", lw=0.8, ls=":")
    axes.set_xticks(range(len(rows)), [size(row["size"]) for row in rows])
    axes.set_xlabel("bytes in a message")
    axes.set_ylim(0, MOST)
    axes.set_title(title, fontsize=10)
    for i, row in enumerate(rows):
        axes.annotate(f"{row['zerohop']['median']:.3g}", (i, row["to_best_peer"]["median"]), textcoords="offset points",
                      xytext=(0, -14), ha="center", fontsize=7, color=MEASURED)  # fmt: skip


def latency_figure(panels: dict[tuple[str, str], list[dict]]) -> plt.Figure:
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels) + 1, 3.6), sharey=True, squeeze=False)
    for place, ((placement, buffers), rows) in zip(axes[0], panels.items(), strict=True):
        draw_latencies(place, f"{placement}, {BUFFERS.get(buffers, buffers)}", rows)
    axes[0][0].set_ylabel("one-way time / best peer's")
    axes[0][-1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.text(
        0.01, 0.005, "red figures: zerohop, microseconds; bars: 95 % of the median paired ratio; ▲: above", fontsize=7
    )
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    plt.rcParams["savefig.bbox"] = "tight"  # with the legend
    return figure


# ---- predictions


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


def draw_predictions(axes: plt.Axes, title: str, points: list[dict]) -> None:
    points = sorted((p for p in points if p["bytes"] > 0), key=lambda p: p["bytes"])
    intervals = [p["measured_us"] for p in points]
    draw_measured(axes, [p["bytes"] for p in points], intervals, ms=4, lw=2, label="measured")
    for model, colour in MODEL_COLOURS.items():
        known = [(p["bytes"], prediction(p, model), p["measured_us"]["median"]) for p in points]
        known = [(at, us, seen) for at, us, seen in known if us]
        if not known:
            continue
        error = sum(abs(us / seen - 1) for _, us, seen in known) / len(known)
        label = f"{model}, {100 * error:.1f} %"
        sizes, times, _ = zip(*known, strict=True)
        axes.plot(sizes, times, marker="o", ms=3, lw=1.1, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("bytes")
    axes.legend(fontsize=7)


def prediction_figure(points: list[dict]) -> plt.Figure:
    panels: dict[str, list[dict]] = defaultdict(list)
    for point in points:
        panels[panel_of(point)].append(point)
    figure, axes = plots.grid(plt, len(panels), COLUMNS, (4.2, 3.4))
    for place, (title, mine) in zip(axes.flatten(), panels.items(), strict=False):
        draw_predictions(place, title, mine)
    for row in axes:
        row[0].set_ylabel("µs")
    figure.tight_layout()
    return figure


# ---- choices


def choice_figure(document: dict) -> plt.Figure:
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
    axes.set_xlabel("bytes of the vector, or of one rank's piece")
    where = f"{table['ranks']} ranks on {table['nodes']} nodes, {document['profile']['name']}"
    axes.set_title(f"Fastest by {document['model']}: {where}", fontsize=9)
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=colours[n]) for n in names], names, fontsize=6, ncols=2,
                loc="upper left", bbox_to_anchor=(1, 1))  # fmt: skip
    plt.rcParams["savefig.bbox"] = "tight"
    return figure


def main() -> int:
    parser = Parser("zerohop python plot", __doc__)
    parser.add_argument("--zerohop", help=argparse.SUPPRESS)
    parser.add_argument("file", type=Path, help="what was written as JSON")
    parser.add_argument("picture", type=Path, help="file to write: .svg, .png or .pdf")
    arguments = parser.parse_args()
    if plt is None:
        print(plots.WANTED, file=sys.stderr)
        return 2
    document = read_object(arguments.file)
    if document.get("tables"):
        figure = choice_figure(document)
    elif document.get("schema") == SCHEMA and document.get("points"):
        figure = prediction_figure(document["points"])
    elif panels := latency_panels(document.get("rows", [])):
        figure = latency_figure(panels)
    else:
        print(f"{arguments.file}: no choices, no points, no latency rows with {MIN_ROUNDS} rounds and a peer",
              file=sys.stderr)  # fmt: skip
        return 2
    try:
        figure.savefig(arguments.picture, metadata={"Date": None} if arguments.picture.suffix == ".svg" else None)
    except ValueError as why:  # a format that there is not
        print(f"{arguments.picture}: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
