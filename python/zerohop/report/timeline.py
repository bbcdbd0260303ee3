"""The timeline of a job: what `zerohop run --trace` leaves, as a picture of the job's last moments."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from zerohop.command_line import loads
from zerohop.report.document import count, part, rows, word
from zerohop.report.sections import MOST_CALLS, section, table
from zerohop.report.text import times, whole

TITLE = "Timeline"
MOST_SLICES = 3000  # of the picture
MOST_ARROWS = 1000
MOST_RANKS = 32


def of_category(events: list[dict], *categories: str) -> list[dict]:
    return [e for e in events if word(e, "ph") == "X" and word(e, "cat") in categories]


def flights(events: list[dict]) -> list[tuple[dict, dict]]:
    """The points at which messages were sent and received, of those that have both."""
    ends: dict[str, dict[str, dict]] = {"s": {}, "f": {}}
    previous: dict = {}
    for event in events:
        if word(event, "ph") in ends and isinstance(event.get("id"), str):
            ends[event["ph"]][event["id"]] = previous  # an arrow follows its message
        previous = event
    return [(sent, ends["f"][name]) for name, sent in ends["s"].items() if name in ends["f"]]


def picture_of(calls: list[dict], messages: list[tuple[dict, dict]]) -> dict:
    ranks = sorted({int(count(c, "pid")) for c in calls})[:MOST_RANKS]
    shown = [c for c in calls if count(c, "pid") in ranks]
    shown = sorted(shown, key=lambda c: count(c, "ts") + count(c, "dur"))[-MOST_SLICES:]
    begin = min(count(c, "ts") for c in shown)
    spent: dict[str, float] = {}
    for c in shown:
        spent[word(c, "name")] = spent.get(word(c, "name"), 0) + count(c, "dur")
    named = sorted(spent, key=lambda name: -spent[name])[:MOST_CALLS]
    series: dict[str, list] = {}
    for c in shown:
        said = f"{word(c, 'name')}, {count(c, 'dur'):.3f} µs"
        if by := word(c, "args", "by"):
            said += f", {whole(count(c, 'args', 'bytes'))} B by {by}"
        name = word(c, "name") if word(c, "name") in named else "other calls"
        series.setdefault(name, []).append([count(c, "pid"), round(count(c, "ts") - begin, 3), count(c, "dur"), said])
    inside = [m for m in messages if count(m[0], "ts") >= begin and all(count(e, "pid") in ranks for e in m)]
    arrows = [[round(count(s, "ts") - begin, 3), count(s, "pid"), round(count(r, "ts") - begin, 3), count(r, "pid")]
              for s, r in sorted(inside, key=lambda m: count(m[1], "ts"))[-MOST_ARROWS:]]  # fmt: skip
    title = f"the last {times(len(shown), 'call')} and {times(len(arrows), 'message')}, drag to look closer"
    choices = {"calls and messages": arrows, "calls": []} if arrows else {"calls": []}
    shape = {"kind": "timeline", "name": "timeline", "title": title, "ranks": ranks}
    return shape | {"series": series, "choices": choices}


def timeline_section(path: Path) -> dict:
    try:
        trace = loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        return section("timeline", TITLE, "", notes=(f"{path}: {getattr(why, 'strerror', why)}.",))
    events = rows(trace if isinstance(trace, dict) else {}, "traceEvents")
    calls, messages = of_category(events, "call", "collective"), flights(events)
    if not calls:
        return section("timeline", TITLE, "", notes=(f"No call of a rank is in {path}.",))
    ways: dict[str, list[tuple[float, float]]] = {}
    for sent, received in messages:
        took = max(count(received, "ts") - count(sent, "ts"), 0) * 1e-6
        ways.setdefault(word(received, "args", "way"), []).append((count(received, "args", "bytes"), took))
    by_way = [[way, len(m), sum(size for size, _ in m), median(took for _, took in m)] for way, m in ways.items()]
    heads = [("way", ""), ("messages", "count"), ("bytes", "bytes"), ("median from send to arrival", "s")]
    lost = sum(count(part(e, "args"), "lost") for e in events if word(e, "name") == "process_name")
    notes = [f"`{path.name}` opens in https://ui.perfetto.dev with all of it."]
    notes += [f"{times(lost, 'earlier event')} of all ranks had no room."] if lost else []
    intro = "What each rank did last: bars are its calls, lines lead from send to receive."
    return section(
        "timeline", TITLE, intro, picture_of(calls, messages), table("Messages", heads, by_way), notes=tuple(notes)
    )
