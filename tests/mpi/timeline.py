#!/usr/bin/env python3
"""The file of `zerohop run --trace` is one of trace events, and tells of messages what the statistics tell.

    tests/mpi/timeline.py [--host NAME]... [--only NAME]

By the format (docs/user/timeline.md): each kind of event has its keys, slices of a thread lie in each other, an arrow
has both ends, the second not before the first, each at a message in a call; spans begin and end. Messages and bytes of
each way are those of the statistics. Of a long run the latest events are kept, and what is lost is told; a job of
several nodes has one file; MPI_Abort leaves one; a killed rank leaves none that is broken.
Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import collections
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Outcome, Zerohop, launch  # noqa: E402
from matrix.programs import binary_of  # noqa: E402
from matrix.script import expect, run_cases  # noqa: E402

SOURCE = HERE / "timeline" / "program.c"
ZEROHOP = Zerohop(ROOT / "build")
PRELOADED = Zerohop(ROOT / "build", "preload")  # nobody looks at the names before the job
RANKS = 4
TIMEOUT_S = 120
KEPT = (1 << 16) - 1  # events of a rank
AT = {"pid": int, "tid": int, "ts": float | int, "cat": str, "name": str}
# What each kind of event has, and of which type.
KEYS = {
    "M": {"pid": int, "name": str, "args": dict},
    "X": AT | {"dur": float | int},
    "s": AT | {"id": str},
    "f": AT | {"id": str, "bp": str},
    "b": AT | {"id2": dict},
    "e": AT | {"id2": dict},
}
WAYS = {"inline", "eager", "cells", "cma", "ko", "mapped", "self", "host"}
Tally = dict[tuple[int, str], tuple[int, int]]  # messages and bytes by rank and way


def run(host, folder: Path, *words: str, options: tuple[str, ...] = (), **env: str) -> Outcome:
    zerohop = [str(ZEROHOP.command), "run", "--trace", str(folder / "t.json"), *options]
    outcome = launch(host, Placement(RANKS), [*zerohop, str(binary_of(host, SOURCE)), *words], TIMEOUT_S, **env)
    expect(not outcome.timed_out and (outcome.code == 0) != (words in (("abort",), ("kill",))), outcome.tail())
    return outcome


def slices(events: list[dict], *categories: str) -> list[dict]:
    return [e for e in events if e["ph"] == "X" and e["cat"] in categories]


def ns(us: float) -> int:
    return round(us * 1000)


def check_slices(events: list[dict], whole: bool) -> None:
    threads = collections.defaultdict(list)
    for e in slices(events, "call", "collective", "message"):
        expect(e["dur"] > 0 or (e["cat"] == "message" and e["dur"] == 0), e)
        threads[e["pid"], e["tid"]].append((ns(e["ts"]), -ns(e["dur"]), e))
    for thread in threads.values():
        around: list[int] = []  # where the slices end that have begun
        for begin, length, e in sorted(thread, key=lambda t: t[:2]):
            while around and (around[-1] <= begin if length else around[-1] < begin):
                around.pop()
            expect(not around or begin - length <= around[-1], f"{e} ends behind what is around it")
            expect(around or not whole or e["cat"] != "message", f"{e} is in no call")
            if length:
                around.append(begin - length)


def check_arrows(events: list[dict], whole: bool) -> None:
    points = {(e["pid"], e["tid"], e["ts"]) for e in slices(events, "message")}
    ends: dict[str, dict[str, dict]] = {"s": {}, "f": {}}
    for e in events:
        if e["ph"] in ends:
            expect(e["id"] not in ends[e["ph"]], f"twice: {e}")
            expect((e["pid"], e["tid"], e["ts"]) in points, f"{e} is at no message")
            ends[e["ph"]][e["id"]] = e
    both = ends["s"].keys() & ends["f"].keys()
    expect(len(both) > 500 and (not whole or len(both) == len(ends["s"]) == len(ends["f"])), f"{len(both)} arrows")
    for name in both:
        expect(ends["s"][name]["ts"] <= ends["f"][name]["ts"], f"{ends['f'][name]} is before its send")


def check_spans(events: list[dict]) -> None:
    ends = {ph: {(e["pid"], e["id2"]["local"], e["name"]): e["ts"] for e in events if e["ph"] == ph} for ph in "be"}
    expect(ends["b"].keys() == ends["e"].keys(), "spans without an end")
    expect(all(ts <= ends["e"][name] for name, ts in ends["b"].items()), "a span ends before it begins")


def read(folder: Path, *, whole: bool = True) -> list[dict]:
    """The events, if all is right with them; `whole`: none is missing."""
    path = folder / "t.json"
    expect(path.exists(), f"no file; there: {[p.name for p in folder.iterdir()]}")
    document = json.loads(path.read_text())
    expect(document["displayTimeUnit"] == "ns", document.keys())
    events = document["traceEvents"]
    for event in events:
        keys = KEYS[event["ph"]]
        wrong = [key for key, kind in keys.items() if not isinstance(event.get(key), kind)]
        expect(not wrong and event.keys() <= keys.keys() | {"ph", "args"}, f"{wrong} of {event}")
        expect(event.get("bp", "e") == "e", event)
    check_slices(events, whole)
    check_arrows(events, whole)
    check_spans(events)
    expect({e["args"]["way"] for e in slices(events, "message")} <= WAYS, "ways")
    return events


def told(events: list[dict], end: str) -> Tally:
    """`end`: send or receive."""
    found: Tally = {}
    for e in slices(events, "message"):
        what, way = e["name"].split()
        expect(way == e["args"]["way"] and ("to" if what == "send" else "from") in e["args"], e)
        if what == end and way != "host":
            messages, size = found.get((e["pid"], way), (0, 0))
            found[e["pid"], way] = (messages + 1, size + e["args"]["bytes"])
    return found


def counted(folder: Path, key: str) -> Tally:
    ranks = json.loads((folder / "t.stats.json").read_text())["ranks"]
    found = {(r["rank"], way): rows for r in ranks for way, rows in r[key]["by_path"].items() if rows}
    return {k: (sum(x["messages"] for x in rows), sum(x["bytes"] for x in rows)) for k, rows in found.items()}


def lost(events: list[dict]) -> list[int]:
    said = {e["pid"]: e["args"]["lost"] for e in events if e["name"] == "process_name"}
    expect(list(said) == list(range(RANKS)), said)
    return list(said.values())


def everything_is_told(host, folder: Path) -> None:
    run(host, folder)
    events = read(folder)
    expect(lost(events) == [0] * RANKS and not list(folder.glob("*.part")), lost(events))
    for end, key in (("send", "sent"), ("receive", "received")):
        there, wanted = told(events, end), counted(folder, key)
        expect(there == wanted, f"{end}: {sorted(there.items())}, but {sorted(wanted.items())}")
    ways = {way for _, way in told(events, "send")}
    expect({"inline", "eager"} <= ways and ways & {"mapped", "cma", "cells"}, ways)
    expect('a "name"' in {e["args"]["comm"] for e in slices(events, "message")}, "no name")
    calls = {e["name"]: e["args"] for e in slices(events, "collective")}
    expect({"MPI_Allreduce", "MPI_Bcast", "MPI_Barrier", "MPI_Iallreduce"} <= calls.keys(), calls.keys())
    expect(calls["MPI_Allreduce"] == {"bytes": 4000, "comm": 'a "name"', "by": "team"}, calls["MPI_Allreduce"])
    report = [ZEROHOP.command, "report", str(folder / "t.stats.json"), "--trace", str(folder / "t.json"), "--text"]
    done = subprocess.run(report, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    rows = [line.split() for line in done.stdout.split("Timeline")[-1].split("How bytes went")[0].splitlines()]
    shown = sum(int(row[1].replace(",", "")) for row in rows if row and row[0] in WAYS)
    expect(shown == sum(messages for messages, _ in told(events, "send").values()), (shown, done))


def the_latest_are_kept(host, folder: Path) -> None:
    many = 70_000
    run(host, folder, "many", str(many))
    events = read(folder, whole=False)
    missing = lost(events)
    expect(missing[2:] == [0, 0], missing)
    for rank in (0, 1):
        mine = [e for e in slices(events, "call", "message") if e["pid"] == rank]
        tags = [e["args"]["tag"] for e in mine if e["cat"] == "message"]
        expect(tags == list(range(tags[0], many)), f"rank {rank}: not the latest {len(tags)}")
        expect(len(mine) == KEPT and 2 * many <= KEPT + missing[rank] <= 2 * many + 99, (len(mine), missing))


def several_nodes_are_in_one_file(host, folder: Path) -> None:
    run(host, folder, options=("-o", "node_ranks=2"))
    events = read(folder)
    expect(lost(events) == [0] * RANKS, lost(events))
    between = {(e["pid"] // 2, e["args"]["to"] // 2) for e in slices(events, "message") if e["args"]["way"] == "host"}
    expect(between == {(0, 1), (1, 0)}, between)
    expect(told(events, "send") == counted(folder, "sent"), "not what is counted")


def abort_leaves_a_file(host, folder: Path) -> None:
    run(host, folder, "abort")
    events = read(folder, whole=False)
    expect({e["pid"] for e in slices(events, "message")} == set(range(RANKS)), "not all ranks are there")


def a_killed_rank_breaks_no_file(host, folder: Path) -> None:
    run(host, folder)  # an older job's goes
    run(host, folder, "kill")
    if (folder / "t.json").exists():  # else the launcher has ended the others before one of them could write
        read(folder, whole=False)


def what_cannot_be_written_is_told(host, folder: Path) -> None:
    outcome = run(host, folder / "none", options=("-o", f"STATS={folder}/s.json"))
    expect(f"no --trace {folder}/none/t.json: no folder" in outcome.output, outcome.tail())
    env = {"ZEROHOP_CONFIG": f"trace={folder}/none/t.json", "ZEROHOP_STATS": f"{folder}/s.json"}
    outcome = launch(host, Placement(RANKS), [binary_of(host, SOURCE)], TIMEOUT_S, PRELOADED, **env)
    expect(f"no timeline: {folder}/none/t.json: No such file" in outcome.output, outcome.tail())


def a_file_of_the_users_stays(host, folder: Path) -> None:
    (folder / "t.json").write_text("1 2 3")
    env = {"ZEROHOP_CONFIG": f"trace={folder}/t.json", "ZEROHOP_STATS": f"{folder}/s.json"}
    outcome = launch(host, Placement(RANKS), [binary_of(host, SOURCE)], TIMEOUT_S, PRELOADED, **env)
    expect(outcome.output.count("t.json: that file is not one of zerohop's") == 1, outcome.tail())
    expect((folder / "t.json").read_text() == "1 2 3", "it is another one")


def what_is_no_file_stays(host, folder: Path) -> None:
    (folder / "t.json").mkdir()
    outcome = run(host, folder)
    expect("is a folder" in outcome.output and (folder / "t.json").is_dir(), outcome.tail())
    (folder / "t.json").rmdir()
    (folder / "target").touch()
    (folder / "t.json").symlink_to("target")
    run(host, folder)
    expect((folder / "t.json").is_symlink() and lost(read(folder)) == [0] * RANKS, "a link does not stay one")


def numbers_have_a_point_in_every_locale(host, folder: Path) -> None:
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], check=False)
    expect((folder / "de_DE.UTF-8").is_dir(), f"localedef made no locale: {made}")
    run(host, folder, LOCPATH=str(folder), LC_ALL="de_DE.UTF-8")
    expect(lost(read(folder)) == [0] * RANKS and counted(folder, "sent"), "not read")


CASES = (
    everything_is_told,
    the_latest_are_kept,
    several_nodes_are_in_one_file,
    abort_leaves_a_file,
    a_killed_rank_breaks_no_file,
    what_cannot_be_written_is_told,
    a_file_of_the_users_stays,
    what_is_no_file_stays,
    numbers_have_a_point_in_every_locale,
)


def main() -> int:
    def run_in_folder(case, host) -> None:
        with tempfile.TemporaryDirectory(prefix="zh timeline ") as folder:
            case(host, Path(folder))

    def why_not(case) -> str:
        made = shutil.which("localedef") and Path("/usr/share/i18n/locales/de_DE").exists()
        return "no localedef" if case is numbers_have_a_point_in_every_locale and not made else ""

    return run_cases(__doc__, ZEROHOP, CASES, run_in_folder, why_not)


if __name__ == "__main__":
    sys.exit(main())
