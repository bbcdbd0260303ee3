"""The first lines of a report: what limited the job, what to try, what it would gain. A gain is told where it follows
from the numbers, as a bound; elsewhere the line says what would tell."""

from __future__ import annotations

from collections.abc import Iterator

from zerohop.report import MEASURE
from zerohop.report.summary import POLLS
from zerohop.report.text import amount, percent, seconds, times, whole

MOST_LINES = 10
LARGE = 512 << 10  # bytes from which on one copy pays between all ranks
SMALL = "<1K"
STRAIGHT = ("cma", "ko", "mapped")
TRY = "A run before and one after tell the gain: `zerohop compare`"
WAITED = {
    "for_message": ("for messages that were sent late", "let the senders send earlier, or balance their work"),
    "for_receive": ("for receives that were posted late", "post them earlier (MPI_Irecv before the computation)"),
    "for_members": ("for members that came late to collectives", "balance the work before them, or use MPI_I... calls"),
    "in_host": (
        "in calls of the MPI library itself",
        "windows, files, new communicators and other nodes are its own; the table of calls names them",
    ),
}

Line = dict  # text; rests_on: the numbers by their name


def line(text: str, **rests_on: object) -> Line:
    return {"text": text, "rests_on": rests_on}


def ended(s: dict) -> Iterator[Line]:
    job = s["job"]
    if job["ranks"] == 0:
        yield line("No rank has told anything: the file was made at the start, and the job ended at once.", ranks=0)
    elif not job["finished"]:
        dead = ", ".join(map(str, job["dead_ranks"][:8]))
        how = {
            "running": f"was running at {job['written'] or 'an unknown time'}, or was killed since",
            "MPI_Abort": "was ended by MPI_Abort in rank {:.0f} (code {:.0f})".format(*job["abort"]),
            "a rank died": f"lost {times(len(job['dead_ranks']), 'rank')}: {dead}",
        }.get(job["end"], f"ended by: {job['end']}")
        of = (
            f", of {whole(job['ranks'])} of {whole(job['world_size'])} ranks"
            if job["ranks"] < job["world_size"]
            else ""
        )
        yield line(f"The job {how}: the counters are those of that moment{of}.", end=job["end"])
    elif job["ranks"] < job["world_size"]:
        missing = job["world_size"] - job["ranks"]
        text = f"{times(missing, 'rank')} of {whole(job['world_size'])} told nothing here: give the files of all ranks."
        yield line(text, ranks=job["ranks"], world_size=job["world_size"])


def idle(s: dict) -> Iterator[Line]:
    if s["job"]["ranks"] and s["job"]["finished"] and not s["sent"]["messages"] and not s["collectives"]:
        text = "No message and no collective went through zerohop: one rank on a node has nothing to share, or every"
        yield line(text + " call went to the MPI library; `zerohop doctor ./app` says which.", messages=0)


def time_in_mpi(s: dict) -> Iterator[Line]:
    t = s["time"]
    if t is None:
        text = f"Time was not measured: run with `{MEASURE}` to see how much of it is MPI, which calls, and who waits."
        yield line(text, measured_ranks=0)
    elif t["wall_s"] and t["mpi_s"]:
        mean, share = t["mpi_s"] / t["measured_ranks"], t["mpi_s"] / (t["mpi_s"] + t["outside_s"])
        busiest = max(t["ranks"], key=lambda r: r["outside_s"])
        bound = max(t["wall_s"] - busiest["outside_s"], 0)
        text = f"MPI took {percent(share)} of the time, {seconds(mean)} of {seconds(t['wall_s'])} in the mean rank."
        why = f"for rank {busiest['rank']} is outside of it for {seconds(busiest['outside_s'])}"
        text += f" Faster messages alone can gain {seconds(bound)} at most, {why}."
        yield line(text, share=share, mean_mpi_s=mean, wall_s=t["wall_s"], most_outside_s=busiest["outside_s"])


def waiting(s: dict) -> Iterator[Line]:
    t = s["time"]
    kinds = sorted(WAITED, key=lambda k: -t["waits"][k]["seconds"]) if t else ()
    for kind in kinds[:2]:
        mean = t["waits"][kind]["seconds"] / t["measured_ranks"]
        if mean < 0.02 * t["wall_s"] or mean == 0:
            continue
        top = max(t["ranks"], key=lambda r: r["waits"][kind])
        what, remedy = WAITED[kind]
        longest = top["waits"][kind]
        # Late by work of their own are ranks only while they are outside MPI.
        others = t["outside_s"] * (1 - 1 / t["measured_ranks"]) if kind != "in_host" else mean
        gain = f"{remedy}. That can gain {seconds(min(mean, others))} at most."
        if others < 0.5 * mean:
            gain = f"others were outside MPI for {seconds(others)} of that at most, else in MPI too: messages were on"
            gain += " their way, or ranks had no processor."
        text = f"Ranks waited {seconds(mean)} in the mean {what}, rank {top['rank']} the longest ({seconds(longest)})"
        yield line(f"{text}: {gain}", kind=kind, mean_s=mean, longest_s=longest, others_outside_s=others)


def polling(s: dict) -> Iterator[Line]:
    t = s["time"]
    mean = t["polling_s"] / t["measured_ranks"] if t else 0
    if mean and mean > 0.05 * t["wall_s"]:
        polls = [c for c in t["calls"] if POLLS.fullmatch(c["call"])]
        calls, most = times(sum(c["calls"] for c in polls), "call"), polls[0]["call"]
        text = f"Ranks polled {seconds(mean)} in the mean, by {calls}, most {most}: for what is not seen. Where there"
        yield line(f"{text} is nothing else to do, MPI_Wait... leaves the processor to other ranks.", mean_s=mean)


def uneven(s: dict) -> Iterator[Line]:
    t = s["time"]
    if not t or t["measured_ranks"] < 2:
        return
    mean = t["outside_s"] / t["measured_ranks"]
    top = max(t["ranks"], key=lambda r: r["outside_s"])
    gain = top["outside_s"] - mean
    if gain > 0.05 * t["wall_s"]:
        text = f"Outside MPI rank {top['rank']} took {seconds(top['outside_s'])}, the mean rank {seconds(mean)}: the"
        yield line(f"{text} same work spread evenly can gain {seconds(gain)}.", most_s=top["outside_s"], mean_s=mean)


def top_call(s: dict) -> Iterator[Line]:
    t = s["time"]
    c = next((c for c in t["calls"] if not POLLS.fullmatch(c["call"])), None) if t and t["mpi_s"] else None
    if c:
        share = c["seconds"] / t["mpi_s"]
        each = f", {seconds(c['seconds'] / c['calls'])} each" if c["calls"] else ""
        text = f"{c['call']} took {percent(share)} of the time in MPI ({times(c['calls'], 'call')}{each})"
        yield line(f"{text}: start there.", call=c["call"], seconds=c["seconds"], calls=c["calls"])


def left_to_host(s: dict) -> Iterator[Line]:
    for f in s["fallbacks"][:2]:
        text = f"“{f['reason']}”: {times(f['times'], 'time')} in {times(f['ranks'], 'rank')}. Try: {f['advice']}."
        yield line(f"{text} {TRY}.", times=f["times"], ranks=f["ranks"])
    several = [c for c in s["collectives"] if c["ranks"] != 1]  # alone a rank has nothing to gain
    calls = sum(c["calls"] for c in several)
    by_host = [c for c in several if c["by"] == "host"]
    hosts = sum(c["calls"] for c in by_host)
    if calls and hosts > 0.1 * calls:
        most = max(by_host, key=lambda c: c["calls"])["call"]
        text = (
            f"The MPI library served {percent(hosts / calls)} of {times(calls, 'collective call')} itself, most {most}"
        )
        yield line(
            f"{text}: `zerohop info --collective` says why, `zerohop bench coll` what is faster.", host_calls=hosts
        )


def private_memory(s: dict) -> Iterator[Line]:
    heap = s["heap"]
    if not heap:
        return
    for r in sorted(heap["reasons"], key=lambda r: (r["what"] != "declined_why", -r["ranks"]))[:1]:
        lasting = r["what"] == "declined_why"
        what = (
            "No more buffers became shared"
            if lasting
            else f"Buffers of {amount(heap['declined_bytes'])} stayed private"
        )
        because = "because" if lasting else "the latest because"
        text = f"{what} in {times(r['ranks'], 'rank')}, {because} {r['why']}. Try: {r['advice']}. {TRY}."
        yield line(text, declined_bytes=heap["declined_bytes"], ranks=r["ranks"])
    if s["windows_refused"]:
        text = f"Peers' memory could not be mapped {times(s['windows_refused'], 'time')}: `zerohop doctor` looks at"
        yield line(f"{text} peer_files, and says what mends it.", windows_refused=s["windows_refused"])


def copied_twice(s: dict) -> Iterator[Line]:
    cells = next(w for w in s["sent"]["ways"] if w["way"] == "cells")
    large = sum(row["bytes"] for row in cells["sizes"] if row["below_bytes"] > LARGE)
    if s["sent"]["bytes"] and large > 0.1 * s["sent"]["bytes"]:
        lagging = next((c["sum"] for c in s["counters"] if c["counter"] == "skew.messages_through_cells"), 0)
        straight = sum(w["bytes"] for w in s["sent"]["ways"] if w["way"] in STRAIGHT)
        why = (
            f"{times(lagging, 'message')} because the receiver lagged"
            if lagging
            else "others went straight, so zerohop took two copies for the faster way between these ranks"
            if straight
            else "`zerohop doctor` says whether the system refuses copies between ranks, and what mends it"
        )
        text = f"{percent(large / s['sent']['bytes'])} of the bytes sent ({amount(large)}) were large and copied twice"
        yield line(f"{text}: {why}. `zerohop bench p2p` tells what one copy gains here.", bytes=large)


def small_messages(s: dict) -> Iterator[Line]:
    small = next((r for r in s["sent"]["by_size"] if r["size"] == SMALL), None)
    sent = s["sent"]
    if small and sent["messages"] > 1000 and small["sent_messages"] > 0.5 * sent["messages"]:
        share = small["sent_messages"] / sent["messages"]
        part = small["sent_bytes"] / sent["bytes"] if sent["bytes"] else 0
        text = f"{percent(share)} of {times(sent['messages'], 'message')} are below 1 KiB, and carry {percent(part)} of"
        what = "the bytes: send fewer and larger ones where you can; `zerohop bench p2p` tells what one costs here."
        yield line(f"{text} {what}", messages=small["sent_messages"])


def late_receives(s: dict) -> Iterator[Line]:
    by_name = {c["counter"]: c for c in s["counters"]}
    came, queue = by_name.get("unexpected.total"), by_name.get("unexpected.high_water")
    if came and queue and queue["most"] >= 16 and came["sum"] > 0.2 * s["sent"]["messages"]:
        text = (
            f"{times(came['sum'], 'message')} came before their receive, up to {whole(queue['most'])} at a time in rank"
        )
        text += f" {queue['most_in_rank']}: post receives earlier."
        yield line(f"{text} {TRY}.", total=came["sum"], high_water=queue["most"])


def company(s: dict) -> Iterator[Line]:
    t = s["time"]
    mean = t["without_processor_s"] / t["measured_ranks"] if t else 0
    remedy = "Leave the job its processors (fewer ranks, binding, other programs elsewhere)."
    if mean and mean > 0.02 * t["wall_s"]:
        top = max(t["ranks"], key=lambda r: r["without_processor_s"])
        text = f"Ranks could have run but had no processor for {seconds(mean)} in the mean, rank {top['rank']} the"
        text += f" longest ({seconds(top['without_processor_s'])}): all times here have that in them. {remedy}"
        yield line(text, mean_s=mean)
        return
    found = {c["counter"]: c for c in s["counters"] if c["counter"] in ("busy_cpu", "shared_cpu") and c["sum"]}
    if found:
        whats = {"busy_cpu": "other programs wanted", "shared_cpu": "a peer ran on"}
        seen = " and ".join(f"{whats[k]} the processor of {times(sum(map(bool, c['by_rank'])), 'rank')} "
                            f"({times(c['sum'], 'time')})" for k, c in found.items())  # fmt: skip
        text = f"At times {seen}: a rank stands still then, and all times here have that in them. {remedy}"
        yield line(text, **{k: c["sum"] for k, c in found.items()})


def distances(s: dict) -> Iterator[Line]:
    share = s["matrix"]["between_sockets"] if s["matrix"] else None
    if share and share > 0.3:
        text = f"{percent(share)} of the bytes went between sockets: bind ranks that talk much to one socket."
        yield line(f"{text} `zerohop bench p2p` tells what near and far cost here.", share=share)


def single_copies(s: dict) -> Iterator[Line]:
    ways, sent = s["sent"]["ways"], s["sent"]["bytes"]
    once = sum(w["bytes"] for w in ways if w["way"] in STRAIGHT)
    if sent >= LARGE:
        twice = [w for w in ways if w["way"] not in (*STRAIGHT, "self")]
        most = max((row["below_bytes"] for w in twice for row in w["sizes"]), default=0)
        text = f"{percent(once / sent)} of {amount(sent)} sent inside nodes went straight, in one copy"
        text += f"; the others, of less than {amount(most)} each, in two." if most else "."
        yield line(text, bytes=once, share=once / sent)


RULES = (
    ended, idle, time_in_mpi, company, waiting, polling, uneven, top_call, left_to_host, private_memory, copied_twice,
    small_messages, late_receives, distances, single_copies,
)  # fmt: skip


def lines_of(s: dict) -> list[Line]:
    """At most ten, the most telling first."""
    return [found for rule in RULES for found in rule(s)][:MOST_LINES]
