"""What a report shows, section by section: pictures, tables and notes, without saying how they are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from zerohop.report import MEASURE
from zerohop.report.matrix import label
from zerohop.report.summary import POLLING, WAITS
from zerohop.report.text import amount, percent, seconds, times, whole

MOST_BARS = 1024  # of a picture by rank; more are joined, as means
MOST_ROWS = 1024  # of a table by rank
MOST_CALLS = 8  # with a colour of their own
BUSY = {"polling_s": POLLING, "moving_s": "moving, and the rest of MPI"}
NOT_MEASURED = f"Not measured: run with `{MEASURE}`."
OLDER = "Not told: an older zerohop wrote the file, or the job did not reach MPI_Finalize."


def section(name: str, title: str, intro: str, *parts: dict | None, notes: tuple[str, ...] = ()) -> dict:
    found = [p for p in parts if p]
    pictures, tables = [p for p in found if "kind" in p], [p for p in found if "head" in p]
    return {"id": name, "title": title, "intro": intro, "pictures": pictures, "tables": tables, "notes": list(notes)}


def table(caption: str, head: list[tuple[str, str]], rows: list[list], *, folded: bool = False) -> dict | None:
    """`head`: title and unit of each column ("" for words, bytes, s, count, share). None without rows."""
    more = f" (the first {MOST_ROWS} of {whole(len(rows))}; --json has all)" if len(rows) > MOST_ROWS else ""
    return {"caption": caption + more, "head": head, "rows": rows[:MOST_ROWS], "folded": folded} if rows else None


def bars(name: str, title: str, x_title: str, x: list[str], choices: dict[str, dict[str, list[float]]]) -> dict:
    """Stacked bars; `choices`: what they may show (its unit), then values of each series."""
    rounded = {c: {s: [float(f"{v:.6g}") for v in vs] for s, vs in all_.items()} for c, all_ in choices.items()}
    return {"kind": "bars", "name": name, "title": title, "x_title": x_title, "x": x, "choices": rounded}


def by_rank(name: str, title: str, ranks: list[int], unit: str, series: dict[str, list[float]]) -> dict:
    each = max(ceil(len(ranks) / MOST_BARS), 1)
    starts = range(0, len(ranks), each)
    means = {s: [sum(v[i : i + each]) / len(v[i : i + each]) for i in starts] for s, v in series.items()}
    # Also what is nowhere: a thing has the same colour in the pictures of two jobs.
    return bars(name, title, "rank", [label(ranks[i : i + each]) for i in starts], {unit: means})


def matrix_section(s: dict) -> dict:
    title, m = "Who talks to whom", s["matrix"]
    if m is None:
        return section("matrix", title, "", notes=(OLDER,))
    heads = [("from rank", ""), ("to rank", ""), ("messages", "count"), ("bytes", "bytes")]
    rows = [[str(p["from"]), str(p["to"]), p["messages"], p["bytes"]] for p in m["heaviest"]]
    lines = "; solid lines are borders of nodes, dotted of sockets" if m["node_borders"] or m["socket_borders"] else ""
    picture = {"kind": "matrix", "name": "matrix", "title": f"sent from rank to rank{lines}"}
    keys = ("blocks", "cells", "node_borders", "socket_borders", "ranks_per_block", "stretches", "order")
    picture |= {key: m[key] for key in keys} | {"ranks": len(m["order"]), "pairs": m["pairs_of_ranks"]}
    notes = [f"{percent(share)} of the bytes went between {what}."
             for what in ("nodes", "sockets") if (share := m[f"between_{what}"]) is not None]  # fmt: skip
    if m["ranks_per_block"] > 1:
        each = f"Each cell is a block of {m['ranks_per_block']} by {m['ranks_per_block']} ranks"
        notes.append(
            f"{each}{'; a click, or a choice above the picture, shows single ranks' * bool(picture['pairs'])}."
        )
    intro = f"{times(m['messages'], 'message')} between {times(m['pairs'], 'pair')} of ranks."
    heaviest = table("Pairs with the most bytes", heads, rows)
    return section("matrix", title, intro, picture if m["cells"] else None, heaviest, notes=tuple(notes))


def below(size: int) -> str:
    """ "<64K", of a class of sizes."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor:
            return f"<{size // factor}{unit}"
    return f"<{size}"


def classes_of(found: Iterable[int]) -> list[int]:
    """Those found, and the powers of two between them, lest far sizes look near in a picture."""
    sizes = set(found)
    return sorted({*sizes, *(1 << n for n in range(64) if sizes and min(sizes) < 1 << n < max(sizes))})


def ways_section(s: dict) -> dict:
    sent = s["sent"]
    used = [w for w in sent["ways"] if w["messages"]]
    classes = classes_of(row["below_bytes"] for w in used for row in w["sizes"])
    choices = {}
    for key in ("bytes", "messages"):
        found = {w["way"]: {row["below_bytes"]: row[key] for row in w["sizes"]} for w in used}
        choices[key] = {way: [sizes.get(c, 0) for c in classes] for way, sizes in found.items()}
    picture = bars(
        "ways", "sent, by size of the message and way", "bytes of a message", [*map(below, classes)], choices
    )
    all_m, all_b = max(sent["messages"], 1), max(sent["bytes"], 1)
    heads = [("way", ""), ("messages", "count"), ("share of messages", "share"), ("bytes", "bytes"), ("share", "share")]
    ways = [[w["way"], w["messages"], w["messages"] / all_m, w["bytes"], w["bytes"] / all_b] for w in used]
    sizes = [[r["size"], r["sent_messages"], r["sent_messages"] / all_m, r["sent_bytes"], r["sent_bytes"] / all_b]
             for r in sent["by_size"]]  # fmt: skip
    of = sent["of_collectives"]
    intro = "inline and eager: through a ring. cells: copied twice. cma and ko: one copy, by the kernel or its module."
    note = f"{times(of['messages'], 'message')} of these are those that collectives are made of."
    tables = (table("By way", heads, ways), table("By size", [("size", ""), *heads[1:]], sizes))
    return section("ways", "How bytes went", intro + " mapped: one copy, straight. self: to the rank itself.",
                   picture if used else None, *tables, notes=(note,) if used else ("Nothing was sent.",))  # fmt: skip


def time_section(s: dict) -> dict:
    t, title = s["time"], "Time in MPI"
    if t is None:
        return section("time", title, "", notes=(NOT_MEASURED,))
    named = [c["call"] for c in t["calls"][:MOST_CALLS]]
    series = {name: [r["calls"].get(name, 0) for r in t["ranks"]] for name in named}
    series["other calls"] = [r["mpi_s"] - sum(r["calls"].get(n, 0) for n in named) for r in t["ranks"]]
    heads = [("call", ""), ("calls", "count"), ("seconds of all ranks", "s"), ("each", "s"), ("share of MPI", "share")]
    rows = [[c["call"], c["calls"], c["seconds"], c["seconds"] / max(c["calls"], 1), c["seconds"] / (t["mpi_s"] or 1)]
            for c in t["calls"]]  # fmt: skip
    return section("time", title, f"The job's longest rank took {seconds(t['wall_s'])}.",
                   by_rank("time", "seconds in MPI, by call", [r["rank"] for r in t["ranks"]], "s", series),
                   table("By call", heads, rows))  # fmt: skip


def waits_section(s: dict) -> dict:
    t, title = s["time"], "Waiting and moving"
    if t is None:
        return section("waits", title, "", notes=(NOT_MEASURED,))
    ranks = [r["rank"] for r in t["ranks"]]
    series = {f"waiting {text}": [r["waits"][kind] for r in t["ranks"]] for kind, text in WAITS.items()}
    series |= {text: [r[key] for r in t["ranks"]] for key, text in BUSY.items()}
    heads = [("what", ""), ("times", "count"), ("seconds of all ranks", "s"), ("share of MPI", "share")]
    whole_s = t["mpi_s"] or 1
    rows = [[f"waiting {text}", w["times"], w["seconds"], w["seconds"] / whole_s]
            for kind, text in WAITS.items() for w in (t["waits"][kind],)]  # fmt: skip
    rows += [[text, None, t[key], t[key] / whole_s] for key, text in BUSY.items()]
    kinds = (k.replace("_", " ") for k in (*WAITS, "polling", "moving"))
    times = ("wall", "outside MPI", "in MPI", *kinds, "without a processor")
    of_rank = [("rank", ""), *((what, "s") for what in times)]
    each = [[str(r["rank"]), r["wall_s"], r["outside_s"], r["mpi_s"], *r["waits"].values(),
             *(r[k] for k in (*BUSY, "without_processor_s"))] for r in t["ranks"]]  # fmt: skip
    intro = "What ranks waited for inside MPI, and what is left: copying, matching, reducing, having no processor."
    picture = by_rank("waits", "seconds in MPI, by what they were", ranks, "s", series)
    tables = table("In all", heads, rows), table("By rank", of_rank, each, folded=True)
    return section("waits", title, intro, picture, *tables)


def counters_section(s: dict) -> dict:
    by_name = {c["counter"]: c for c in s["counters"]}
    heads = [("what", ""), ("sum", "count"), ("most", "count"), ("in rank", ""), ("counter", "")]
    rows = [[c["meaning"], *((c[k], amount(c[k])) if "bytes" in c["counter"] else c[k] for k in ("sum", "most")),
             str(c["most_in_rank"]), c["counter"]] for c in s["counters"]]  # fmt: skip
    queue, pictures = by_name.get("unexpected.high_water"), []
    if queue and any(queue["by_rank"]):
        series = {"longest queue": queue["by_rank"]}
        pictures.append(
            by_rank("queues", "messages that waited for their receive", s["rank_numbers"], "messages", series)
        )
    copies = {k.split("_")[-1]: by_name[k]["by_rank"] for k in by_name if k.startswith("single_copies.")}
    if any(any(values) for values in copies.values()) and all(
        len(v) == len(s["rank_numbers"]) for v in copies.values()
    ):
        title = "sends copied once, by who copied"
        pictures.append(by_rank("copies", title, s["rank_numbers"], "messages", copies))
    intro = "Early messages, receivers that lag, and who did the copying."
    return section("counters", "Queues and copies", intro, *pictures, table("Counters", heads, rows))


def collectives_section(s: dict) -> dict:
    heads = [("call", ""), ("ranks", "count"), ("served by", ""), ("calls", "count"), ("bytes per call", "bytes"),
             ("bytes", "bytes")]  # fmt: skip
    keys = ("call", "ranks", "by", "calls", "bytes_per_call", "bytes")
    known = any("in_force" in c for c in s["collectives"])
    rows = [[c[k] for k in keys] + ([c.get("in_force", "")] if known else []) for c in s["collectives"]]
    for row, c in zip(rows, s["collectives"] if "predicted" in s else (), strict=False):
        row.append(c["predicted_us"] and c["predicted_us"] / 1e6)
    heads += [("schedule in force here", "")] if known else []
    heads += [("predicted, each", "s")] if "predicted" in s else []
    others = {c["collective"]: ", ".join(c["candidates"]) for c in s["collectives"] if "candidates" in c}
    intro = "Calls of all ranks. team: through shared memory. host: by the MPI library. Other names are schedules."
    tell = "`zerohop schedule NAME --profile FILE` prices each (`zerohop tune --json FILE` measures prices here)."
    notes = (tell,) if others else () if rows else ("No collective was counted.",)
    considered = table(
        "Algorithms to choose from", [("collective", ""), ("algorithms", "")], [*map(list, others.items())]
    )
    return section(
        "collectives", "Collectives", intro, table("By function and way", heads, rows), considered, notes=notes
    )


def predicted_section(s: dict) -> dict:
    title, p = "Predicted and measured", s.get("predicted")
    if p is None:
        how = "`zerohop tune --json here.json` measures one on the job's machine, `--profile here.json` takes it here."
        return section("predicted", title, "", notes=(f"No profile of the machine's costs was given: {how}",))
    sums = [[*r.values(), f"{r['measured_s'] / r['predicted_s']:.2f}" if r["measured_s"] and r["predicted_s"] else "-"]
            for r in p["sums"]]  # fmt: skip
    sizes = [[m["way"], below(m["below_bytes"]), m["messages"], m["predicted_us"] / 1e6, m["predicted_s"]]
             for m in p["messages"]]  # fmt: skip
    known = [r for r in p["sums"] if r["measured_s"] is not None]
    series = {f"{r['what']} {k}": r[f"{k}_s"] for r in known for k in ("predicted", "measured")}
    x, y = [*series], {"s": {"seconds": [*series.values()]}}
    picture = bars("predicted", "seconds of all ranks, predicted and measured", "what", x, y)
    notes = (
        "Messages: measured is the time in point-to-point calls, also to other nodes, without waits of 2 µs and more; "
        "predicted are those inside nodes, also those that collectives are made of.",
        "Collectives: measured is all of their time, with the wait for members that come late; predicted are calls of "
        "their mean size whose members come together. Not predicted: teams, calls of the MPI library, and calls that "
        "do not block.",
        *(() if known else (NOT_MEASURED,)),
    )
    heads = [("what", ""), ("calls", "count"), ("predicted", "s"), ("measured", "s"), ("measured/predicted", "")]
    of_sizes = [("way", ""), ("bytes", ""), ("messages", "count"), ("predicted, each", "s"), ("predicted", "s")]
    return section("predicted", title, f"By the profile {p['profile']['name']}: {p['profile']['about']}",
                   picture if known else None, table("Sums of all ranks", heads, sums),
                   table("Messages, by way and size", of_sizes, sizes), notes=notes)  # fmt: skip


def private_section(s: dict) -> dict:
    heap, notes, rows = s["heap"], [], []
    if not s["job"]["told_ranks"]:
        notes.append("Told only by jobs that reach MPI_Finalize.")
    elif heap is None:
        notes.append("Buffers were not shared: ZEROHOP_HEAP=0, or zerohop left the program's memory alone.")
    else:
        amounts = (("shared at the end", "shared_bytes"), ("became shared", "adopted_bytes"),
                   ("became private again", "returned_bytes"), ("had to stay private", "declined_bytes"))  # fmt: skip
        rows = [[what, heap[key]] for what, key in amounts] if any(heap[key] for _, key in amounts) else []
        told = f"Sharing saved about {seconds(heap['saved_ns'] / 1e9)}, cost {seconds(heap['spent_ns'] / 1e9)} in all."
        notes.append(told if rows else "No buffer was large and used often enough to become shared.")
    what = {"declined_why": "no more buffers become shared", "declined_latest": "the latest buffer that stayed private"}
    why = [[what[r["what"]], r["why"], r["ranks"], r["advice"]] for r in (heap or {"reasons": ()})["reasons"]]
    left = [[f["reason"], f["times"], f["ranks"], f["advice"]] for f in s["fallbacks"]]
    counts = [("times", "count"), ("ranks", "count"), ("what mends it", "")]
    memory = table("Memory", [("memory", ""), ("bytes", "bytes")], rows)
    return section("private", "Private buffers and calls left to the MPI library", "", memory,
                   table("Why buffers stayed private", [("what", ""), ("because", ""), *counts[1:]], why),
                   table("Left to the MPI library", [("reason", ""), *counts], left), notes=tuple(notes))  # fmt: skip


def facts_section(s: dict) -> dict:
    j = s["job"]
    names = {"command": "command", "host_version": "MPI library", "host": "its interface", "world_size": "ranks",
             "nodes": "nodes", "end": "ended by", "started": "started", "written": "written", "job": "job",
             "version": "zerohop"}  # fmt: skip
    rows = [[title, whole(j[key]) if isinstance(j[key], int) else j[key] or "not told"] for key, title in names.items()]
    return section("facts", "The job", "", table("Facts", [("what", ""), ("value", "")], rows))


def sections_of(s: dict) -> list[dict]:
    makers = (matrix_section, ways_section, time_section, waits_section, counters_section, collectives_section,
              predicted_section, private_section, facts_section)  # fmt: skip
    return [maker(s) for maker in makers]
