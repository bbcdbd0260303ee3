"""The numbers of a report, of all ranks and of each: what `--json` prints, and what the page and the sentences show."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from zerohop.report import advice
from zerohop.report.document import Job, count, part, rows, word
from zerohop.report.matrix import matrix_of

WAYS = ("inline", "eager", "cells", "cma", "ko", "mapped", "self")
WAITS = {
    "for_message": "for messages (late senders)",
    "for_receive": "for receives (late receivers)",
    "for_members": "for other members of collectives",
    "in_host": "in calls of the MPI library",
    "untold": "for a reason not told",
}
POLLING = "polling (MPI_Test..., MPI_Iprobe)"
# Calls that look and return: a program that repeats them waits, but zerohop cannot see for what.
POLLS = re.compile(r"MPI_(Test(all|any|some)?|I(m|)probe|Request_get_status.*)")
# Counters of one number, with what a large one means; by path in a rank.
COUNTERS = {
    "unexpected.total": "messages that came before their receive",
    "unexpected.high_water": "longest queue of such messages",
    "skew.switched_on": "decisions that this receiver lags",
    "skew.messages_through_cells": "messages copied twice because their receiver lagged",
    "single_copies.by_sender": "sends copied once, by the sender",
    "single_copies.by_receiver": "sends copied once, by the receiver",
    "single_copies.by_both": "sends copied once, by both together",
    "matched_for_peers.turns": "times it matched for a receiver that was away",
    "matched_for_peers.envelopes": "messages matched so",
    "receivers_in_host.buffered_messages": "sends kept because the receiver was away",
    "sends_parked": "large sends that waited behind 64 others",
    "ring_full": "times a ring for messages was full",
    "rings_grown": "rings replaced by larger ones",
    "busy_cpu": "times other programs wanted the rank's processor",
    "shared_cpu": "times a peer ran on the same processor",
    "slept": "sleeps while waiting",
    "memory_bytes": "bytes of shared memory",
}
HEAP = ("shared_bytes", "adopted_bytes", "returned_bytes", "declined", "declined_bytes", "first_uses", "forks",
        "saved_ns", "spent_ns")  # fmt: skip


def sent_of(job: Job) -> dict:
    """What was sent inside nodes, by way and class of size."""
    table: dict[str, dict[int, list[float]]] = {way: {} for way in WAYS}
    for rank in job.ranks.values():
        ways = part(rank, "sent", "by_path")
        for way in ways:
            for row in rows(ways, way):
                sums = table.setdefault(way, {}).setdefault(int(count(row, "below_bytes")), [0, 0])
                sums[0] += count(row, "messages")
                sums[1] += count(row, "bytes")
    ways_out = []
    for way, classes in table.items():
        sizes = [{"below_bytes": below, "messages": m, "bytes": b} for below, (m, b) in sorted(classes.items())]
        sums = {key: sum(s[key] for s in sizes) for key in ("messages", "bytes")}
        ways_out.append({"way": way, **sums, "sizes": sizes})
    none = {f"{side}_{key}": 0 for side in ("sent", "received") for key in ("messages", "bytes")}
    by_size: dict[str, dict[str, float]] = defaultdict(none.copy)
    for rank in job.ranks.values():
        for side in ("sent", "received"):
            for row in rows(part(rank, side), "by_size"):
                for key in ("messages", "bytes"):
                    by_size[word(row, "size")][f"{side}_{key}"] += count(row, key)
    return {
        "messages": sum(w["messages"] for w in ways_out),
        "bytes": sum(w["bytes"] for w in ways_out),
        "of_collectives": {k: total(job, "sent", "of_collectives", k) for k in ("messages", "bytes")},
        "ways": ways_out,
        "by_size": [{"size": size, **sums} for size, sums in by_size.items()],
    }


def total(job: Job, *path: str) -> float:
    return sum(count(rank, *path) for rank in job.ranks.values())


def time_of(job: Job) -> dict | None:
    """Seconds in MPI by call and rank; None where no rank measured them. Outside: the program's own."""
    ranks, calls = [], defaultdict(lambda: {"calls": 0, "seconds": 0})
    for number, rank in job.ranks.items():
        measured = part(rank, "time")
        if not measured:
            continue
        mine: Counter = Counter()
        for row in rows(measured, "calls"):
            name = word(row, "call") or "other"
            mine[name] += count(row, "seconds")
            calls[name]["calls"] += count(row, "calls")
            calls[name]["seconds"] += count(row, "seconds")
        waits = {kind: count(measured, "waits", kind, "seconds") for kind in WAITS}
        mpi, wall = sum(mine.values()), count(measured, "wall_s")
        polling = min(sum(s for name, s in mine.items() if POLLS.fullmatch(name)), mpi)
        ranks.append(
            {
                "rank": number, "wall_s": wall, "mpi_s": mpi, "outside_s": max(wall - mpi, 0), "waits": waits,
                "without_processor_s": count(measured, "without_processor_s"),
                "polling_s": polling, "moving_s": max(mpi - polling - sum(waits.values()), 0), "calls": dict(mine),
            }
        )  # fmt: skip
    if not ranks:
        return None
    waits = {
        kind: {
            "seconds": sum(r["waits"][kind] for r in ranks),
            "times": total(job, "time", "waits", kind, "times"),
        }
        for kind in WAITS
    }
    by_seconds = sorted(calls.items(), key=lambda c: -c[1]["seconds"])
    kinds = ("mpi_s", "outside_s", "polling_s", "moving_s", "without_processor_s")
    sums = {key: sum(r[key] for r in ranks) for key in kinds}
    wall = max(r["wall_s"] for r in ranks)
    named = [{"call": name} | sums_of for name, sums_of in by_seconds]
    return {"wall_s": wall, "measured_ranks": len(ranks), **sums, "waits": waits, "calls": named, "ranks": ranks}


def counters_of(job: Job) -> list[dict]:
    """Of each counter that a rank tells: sum, largest value and its rank."""
    found = []
    for name, meaning in COUNTERS.items():
        path = name.split(".")
        if any(path[0] in rank for rank in job.ranks.values()):
            by_rank = {n: count(r, *path) for n, r in job.ranks.items()}
            top = max(by_rank, key=by_rank.__getitem__)
            sums = {"sum": sum(by_rank.values()), "most": by_rank[top], "most_in_rank": top}
            found.append({"counter": name, "meaning": meaning, **sums, "by_rank": list(by_rank.values())})
    return found


def collectives_of(job: Job) -> list[dict]:
    """Calls of all ranks by function, size of the communicator and who served them, the most bytes first."""
    sums: dict[tuple, list[float]] = defaultdict(lambda: [0, 0])
    for rank in job.ranks.values():
        for row in rows(rank, "calls"):
            key = (word(row, "call"), int(count(row, "ranks")), word(row, "by"))
            sums[key][0] += count(row, "calls")
            sums[key][1] += count(row, "bytes")
    found = []
    for (call, ranks, by), (calls, size) in sums.items():
        each = size / calls if calls else 0
        found.append({"call": call, "ranks": ranks, "by": by, "calls": calls, "bytes": size, "bytes_per_call": each})
    return sorted(found, key=lambda c: (-c["bytes"], -c["calls"]))


def heap_of(job: Job) -> dict | None:
    """None where no rank tells of it: the job did not reach its end, or shares no memory."""
    heaps = [part(rank, "heap") for rank in job.ranks.values() if "heap" in rank]
    if not heaps:
        return None
    reasons: dict[tuple[str, str], int] = Counter()
    for heap in heaps:
        for key in ("declined_why", "declined_latest"):
            if why := word(heap, key):
                reasons[key, why] += 1
    told = [
        {"what": what, "why": why, "ranks": n, "advice": advice.for_heap(why)} for (what, why), n in reasons.items()
    ]
    return {"ranks": len(heaps), **{key: sum(count(h, key) for h in heaps) for key in HEAP}, "reasons": told}


def fallbacks_of(job: Job) -> list[dict]:
    times, ranks = Counter(), Counter()
    for rank in job.ranks.values():
        for reason in part(rank, "fallbacks"):
            times[reason] += count(rank, "fallbacks", reason)
            ranks[reason] += 1
    return [
        {"reason": reason, "times": n, "ranks": ranks[reason], "advice": advice.for_fallback(reason)}
        for reason, n in times.most_common()
    ]


def job_of(job: Job) -> dict:
    command = job.facts.get("command")
    words = [w for w in command if isinstance(w, str)] if isinstance(command, list) else []
    dead = job.facts.get("dead_ranks")
    dead = [n for n in dead if isinstance(n, int)] if isinstance(dead, list) else []
    texts = ("version", "host", "host_version", "started", "written", "job", "end")
    return {
        **{key: word(job.facts, key) for key in texts},
        "command": " ".join(words), "ranks": len(job.ranks), "world_size": job.size, "seconds": job.seconds,
        "nodes": len(set(job.node.values())), "finished": job.finished, "dead_ranks": dead,
        "abort": [count(job.facts, "abort_rank"), count(job.facts, "abort_code")],
        "told_ranks": sum("fallbacks" in rank for rank in job.ranks.values()),
    }  # fmt: skip


def summary_of(job: Job) -> dict:
    return {
        "schema": "zerohop-report/1", "job": job_of(job), "sent": sent_of(job), "matrix": matrix_of(job),
        "time": time_of(job), "counters": counters_of(job), "rank_numbers": list(job.ranks),
        "collectives": collectives_of(job), "heap": heap_of(job), "fallbacks": fallbacks_of(job),
        "windows_refused": total(job, "mapped", "windows_refused"),
    }  # fmt: skip
