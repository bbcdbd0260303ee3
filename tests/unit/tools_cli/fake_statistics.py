"""Makes documents as ZEROHOP_STATS leaves them, of jobs that never ran. The same arguments give the same document."""

import json
import math

CALLS = ("MPI_Recv", "MPI_Waitall", "MPI_Allreduce", "MPI_Send", "MPI_Alltoallv")
# ways by the size of a message, and the classes of the hybrid paper
WAYS = ((7, "inline"), (16, "eager"), (20, "cells"), (23, "cma"), (40, "mapped"))
SIZES = ((1 << 10, "<1K"), (1 << 15, "1K-32K"), (1 << 20, "32K-1M"), (1 << 40, ">=1M"))


def peers_of(rank, ranks, pattern):
    """(peer, messages, bytes of each) of a ring, a grid of two dimensions, or everybody."""
    if pattern == "all":
        return [(p, 10 + (rank * p) % 7, 1 << (6 + (rank + p) % 16)) for p in range(ranks) if p != rank]
    wide = max(int(math.sqrt(ranks)), 1)
    near = {(rank + 1) % ranks, (rank - 1) % ranks}
    far = {(rank + wide) % ranks, (rank - wide) % ranks} if pattern == "grid" else set()
    return [(p, 1000, 4 << 20) for p in sorted(near - {rank})] + [(p, 4000, 512) for p in sorted(far - near - {rank})]


def tallies(peers):
    by_path = {way: {} for way in ("inline", "eager", "cells", "cma", "ko", "mapped", "self")}
    by_size = {name: [0, 0] for _, name in SIZES}
    for _, messages, size in peers:
        bits = size.bit_length()
        sums = by_path[next(way for most, way in WAYS if bits <= most)].setdefault(1 << bits, [0, 0])
        for pair in (sums, by_size[next(name for below, name in SIZES if size < below)]):
            pair[0] += messages
            pair[1] += messages * size
    rows = {way: [{"below_bytes": c, "messages": m, "bytes": b} for c, (m, b) in sorted(t.items())]
            for way, t in by_path.items()}  # fmt: skip
    return {"by_path": rows, "by_size": [{"size": n, "messages": m, "bytes": b} for n, (m, b) in by_size.items()]}


def time_of(rank, wall_s):
    """Later ranks wait less: the others wait for them."""
    calls = [{"call": c, "calls": 100 * (i + 1), "seconds": wall_s / (8 * (i + 1)) / (1 + rank % 4)}
             for i, c in enumerate(CALLS)]  # fmt: skip
    share = sum(c["seconds"] for c in calls)
    waits = {"for_message": 0.5, "for_receive": 0.1, "for_members": 0.15, "in_host": 0.05, "untold": 0.01}
    return {"wall_s": wall_s, "calls": calls,
            "waits": {kind: {"times": 50 + rank, "seconds": share * part} for kind, part in waits.items()}}  # fmt: skip


def rank_of(rank, ranks, per_node, pattern, *, finished, measured, old):
    peers = peers_of(rank, ranks, pattern)
    sent = tallies(peers) | {"of_collectives": {"messages": 7, "bytes": 56}}
    made = {
        "rank": rank, "node_index": rank % per_node, "node_ranks": per_node, "sent": sent, "received": tallies(peers),
        "unexpected": {"total": 100 * (rank + 1), "high_water": 5 * (rank + 1)},
        "skew": {"switched_on": rank, "switched_off": rank, "messages_through_cells": 3 * rank},
        "single_copies": {"by_sender": 10 + rank, "by_receiver": 20, "by_both": 5},
        "matched_for_peers": {"turns": 2, "envelopes": 4}, "busy_cpu": rank % 2, "ring_full": 0, "slept": 9,
    }  # fmt: skip
    if not old:
        made |= {"node": rank // per_node, "socket": rank % per_node * 2 // per_node,
                 "peers": [{"rank": p, "messages": m, "bytes": m * s} for p, m, s in peers]}  # fmt: skip
    if measured:
        made["time"] = time_of(rank, 40.0)
    made["calls"] = [
        {"call": "MPI_Allreduce", "ranks": ranks, "by": "team", "calls": 100, "bytes": 100 << 20},
        {"call": "MPI_Iallgatherv", "ranks": ranks, "by": "host", "calls": 40, "bytes": 40 << 10},
    ]
    if finished:
        made |= {
            "mapped": {"windows_refused": 0},
            "heap": {"declined_why": "", "declined_latest": "it has huge pages", "declined": 3,
                     "declined_bytes": 3 << 22, "adopted_bytes": 1 << 26, "shared_bytes": 1 << 25,
                     "saved_ns": 4e9, "spent_ns": 1e9},
            "fallbacks": {"started collectives: between nodes": 40} if rank % 2 == 0 else {},
        }  # fmt: skip
    return made


def document(ranks=4, per_node=2, pattern="ring", *, end="MPI_Finalize", measured=True, old=False, **facts):
    """`old`: without what later files have; `facts`: other values of the document's own keys."""
    how = {"finished": end == "MPI_Finalize", "measured": measured, "old": old}
    return {
        "schema": 1, "version": "0.1.0", "host": "mpich", "host_version": "MPICH Version: 5.0.2", "job": "4711",
        "started": "2026-01-31T10:00:00Z", "written": "2026-01-31T10:00:41Z", "world_size": ranks,
        "command": ["./heat", "--steps", "<1000>"], "end": end,
        "ranks": [rank_of(r, ranks, per_node, pattern, **how) for r in range(ranks)],
    } | facts  # fmt: skip


def write(path, *args, **how):
    path.write_text(json.dumps(document(*args, **how)))
    return path
