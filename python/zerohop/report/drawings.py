"""The pictures of a report as files. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path

from zerohop.reproduce import plots

WANTED = "pictures need matplotlib: pip install zerohop[report]"
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999999", "#44bb99")


def draw_bars(axes, picture: dict, choice: str) -> None:
    bottom = [0.0] * len(picture["x"])
    for n, (name, values) in enumerate(picture["choices"][choice].items()):
        axes.bar(range(len(values)), values, bottom=bottom, width=0.9, label=name, color=COLOURS[n % len(COLOURS)])
        bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    every = max(len(bottom) // 16, 1)
    axes.set_xticks(range(0, len(bottom), every), picture["x"][::every])
    axes.set_xlabel(picture["x_title"])
    axes.set_ylabel(choice)
    axes.legend(fontsize=7)


def draw_matrix(plt, axes, picture: dict, choice: str) -> None:
    import numpy

    side = len(picture["blocks"])
    sent = numpy.zeros((side, side))
    for sender, receiver, messages, size in picture["cells"]:
        sent[sender, receiver] = messages if choice == "messages" else size
    shown = axes.imshow(numpy.ma.masked_less_equal(sent, 0), norm="log" if sent.any() else None, cmap="viridis")
    plt.colorbar(shown, ax=axes, label=choice)
    for borders, style in ((picture["node_borders"], "-"), (picture["socket_borders"], ":")):
        for border in borders:
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
    folder.mkdir(parents=True, exist_ok=True)
    for picture in (p for s in sections for p in s["pictures"]):
        for choice in picture.get("choices", ("bytes", "messages")):
            figure, axes = plt.subplots(figsize=(8, 5))
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
