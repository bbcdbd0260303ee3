"""The pictures of a report as files. Needs matplotlib."""

from __future__ import annotations

from math import ceil, log2
from pathlib import Path

from zerohop.report.text import amount
from zerohop.reproduce import plots

WANTED = "pictures need matplotlib: pip install matplotlib, or apt install python3-matplotlib"
MOST_BORDERS = 24  # more hide what lies between them
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999999", "#44bb99")


def show_unit(axis, choice: str, places: list[float] | None) -> None:
    """Numbers of an axis as tables tell them, at these places where there are any."""
    if places:
        axis.set_ticks(places)
    axis.set_major_formatter(lambda n, _: amount(n).replace(".0 ", " ") if choice == "bytes" else f"{n:,.4g}")


def round_places(top: float, choice: str) -> list[float] | None:
    """Powers of two apart for bytes, whole for few messages; None: as the library likes it."""
    step = 2.0 ** ceil(log2(top / 7)) if choice == "bytes" and top else choice == "messages" and top <= 8
    return [step * n for n in range(int(top / step) + 2)] if step else None


def draw_bars(axes, picture: dict, choice: str) -> None:
    bottom = [0.0] * len(picture["x"])
    for n, (name, values) in enumerate(picture["choices"][choice].items()):
        axes.bar(range(len(values)), values, bottom=bottom, width=0.9, label=name, color=COLOURS[n % len(COLOURS)])
        bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    every = max(ceil(len(bottom) / 16), 1)
    first = (len(bottom) - 1) % every  # so that the last one has its name
    axes.set_xticks(range(first, len(bottom), every), picture["x"][first::every])
    axes.set_xlabel(picture["x_title"])
    axes.set_ylabel(choice)
    show_unit(axes.yaxis, choice, round_places(max(bottom, default=0), choice))
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.14), ncol=3)


def draw_matrix(plt, axes, picture: dict, choice: str) -> None:
    import numpy
    from matplotlib.colors import LogNorm

    side = len(picture["blocks"])
    sent = numpy.zeros((side, side))
    for sender, receiver, messages, size in picture["cells"]:
        sent[sender, receiver] = messages if choice == "messages" else size
    if found := [n for n in sent.flat if n > 0]:
        middle = (min(found) * max(found)) ** 0.5
        half = max((max(found) / min(found)) ** 0.5, 2**0.5)  # nearly equal: of one colour
        norm = LogNorm(middle / half, middle * half)
        shown = axes.imshow(numpy.ma.masked_less_equal(sent, 0), norm=norm, cmap="viridis")
        bar = plt.colorbar(shown, ax=axes, label=choice)
        bar.ax.minorticks_off()
        show_unit(bar.ax.yaxis, choice, [middle / half, middle, middle * half])
    else:
        axes.imshow(sent, cmap="Greys", vmin=0, vmax=1)
    drawn = 0
    for borders, style in ((picture["node_borders"], "-"), (picture["socket_borders"], ":")):
        drawn += len(borders)
        for border in borders if drawn <= MOST_BORDERS else ():
            axes.axhline(border - 0.5, color="#888888", lw=0.8, ls=style)
            axes.axvline(border - 0.5, color="#888888", lw=0.8, ls=style)
    every = max(side // 8, 1)
    axes.set_xticks(range(0, side, every), picture["blocks"][::every], rotation=45)
    axes.set_yticks(range(0, side, every), picture["blocks"][::every])
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")


def draw_timeline(axes, picture: dict, choice: str) -> None:
    for n, (name, slices) in enumerate(picture["series"].items()):
        ranks, starts, lengths, _ = zip(*slices, strict=True)
        axes.barh(ranks, lengths, left=starts, height=0.8, label=name, color=COLOURS[n % len(COLOURS)])
    for sent, sender, received, receiver in picture["choices"][choice]:
        axes.plot((sent, received), (sender, receiver), color="#444444", lw=0.5)
    axes.invert_yaxis()
    axes.set_xlabel("µs")
    axes.set_ylabel("rank")
    axes.legend(fontsize=7)


def write(sections: list[dict], folder: Path, kind: str) -> None:
    """One file for each picture and choice; OSError passes."""
    plt = plots.pyplot()
    for picture in (p for s in sections for p in s["pictures"]):
        for choice in picture.get("choices", ("bytes", "messages")):
            figure, axes = plt.subplots(figsize=(7, 4))
            if picture["kind"] == "matrix":
                draw_matrix(plt, axes, picture, choice)
            elif picture["kind"] == "timeline":
                draw_timeline(axes, picture, choice)
            else:
                draw_bars(axes, picture, choice)
            axes.set_title(picture["title"])
            figure.tight_layout()
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(folder / f"{picture['name']}-{choice.replace(' ', '-')}.{kind}", dpi=150, metadata=metadata)
            plt.close(figure)
