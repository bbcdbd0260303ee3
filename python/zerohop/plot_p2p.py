"""Draws the latency rows of `zerohop bench p2p --json p2p.json` as one picture.

    python3 -m zerohop.plot_p2p p2p.json latency.svg

One panel for each placement (near, far) and kind of buffer that has rows: one-way time of every MPI over the message
size, relative to the best peer at that size, with the 95 % interval of zerohop's paired ratio. Sizes in bytes, times in
microseconds. Needs matplotlib (dev/requirements-plots.txt). Exit code 2 when the file holds no latency rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

# Text stays text, and the same results give the same file.
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zerohop"})

COLOURS = {"impi": "#4c78a8", "mpich": "#b79a20", "openmpi": "#54a24b"}
NAMES = {"impi": "Intel MPI", "mpich": "MPICH", "openmpi": "Open MPI"}
BUFFERS = {"malloc": "malloc", "static": "static arrays", "alloc_mem": "MPI_Alloc_mem"}
MIN_ROUNDS = 4  # a panel of fewer says nothing


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{name}"
    return str(size)


def panels(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Latency rows by (placement, buffers), by size."""
    found: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in rows:
        if (
            row["bench"] == "latency"
            and row["metric"] == "time_us"
            and row["rounds"] >= MIN_ROUNDS
            and row["best_peer"]
        ):
            found[row["placement"], row["buffers"]].append(row)
    return {key: sorted(found[key], key=lambda r: r["size"]) for key in sorted(found, reverse=True)}


def draw(axes: plt.Axes, title: str, rows: list[dict]) -> None:
    places = range(len(rows))
    best = [row["peers"][row["best_peer"]]["median"] for row in rows]
    for host in sorted({host for row in rows for host in row["peers"]}):
        points = [(i, row["peers"][host]["median"] / best[i]) for i, row in enumerate(rows) if host in row["peers"]]
        axes.plot(
            *zip(*points, strict=True), marker="o", ms=4, lw=1.2, color=COLOURS.get(host), label=NAMES.get(host, host)
        )
    ratio = [row["to_best_peer"]["median"] for row in rows]
    low = [row["to_best_peer"]["median"] - row["to_best_peer"]["low"] for row in rows]
    high = [row["to_best_peer"]["high"] - row["to_best_peer"]["median"] for row in rows]
    axes.errorbar(
        places, ratio, yerr=[low, high], marker="s", ms=5, lw=2.2, capsize=3, color="#d1493f", label="zerohop"
    )
    axes.axhline(1, color="#888888", lw=0.8, ls=":")
    axes.set_xticks(places, [size_text(row["size"]) for row in rows])
    axes.set_xlabel("bytes in a message")
    axes.set_ylim(0, 3)
    axes.set_title(title, fontsize=10)
    for i, row in enumerate(rows):
        axes.annotate(f"{row['zerohop']['median']:.3g}", (i, ratio[i]), textcoords="offset points", xytext=(0, -14),
                      ha="center", fontsize=7, color="#d1493f")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="file of zerohop bench p2p --json")
    parser.add_argument("picture", type=Path, help="file to write (.svg)")
    arguments = parser.parse_args()
    found = panels(json.loads(arguments.results.read_text())["rows"])
    if not found:
        print(f"{arguments.results}: no latency rows with {MIN_ROUNDS} rounds and a peer", file=sys.stderr)
        return 2
    figure, axes = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.6), sharey=True, squeeze=False)
    for place, ((placement, buffers), rows) in zip(axes[0], found.items(), strict=True):
        draw(place, f"{placement}, {BUFFERS.get(buffers, buffers)}", rows)
    axes[0][0].set_ylabel("one-way time / best peer's")
    axes[0][-1].legend(fontsize=8, loc="upper right")
    figure.text(0.01, 0.005, "red figures: zerohop, microseconds; bars: 95 % of the median paired ratio", fontsize=7)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(arguments.picture, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
