"""Who talks to whom: what ranks sent to each other, in blocks of ranks where there are too many to show each."""

from __future__ import annotations

import heapq
from collections import defaultdict
from itertools import pairwise
from math import ceil

from zerohop.report.document import Job, count, rows

MOST_BLOCKS = 256  # a side of the picture
HEAVIEST = 20  # pairs told by name
STRETCH = 64  # ranks that are shown by themselves in place of the whole
MOST_PAIRS = MOST_BLOCKS**2  # told rank by rank beside the blocks


def pairs_of(job: Job) -> dict[tuple[int, int], tuple[float, float]] | None:
    """(messages, bytes) by sender and receiver; None where no rank tells of its peers."""
    if not any("peers" in rank for rank in job.ranks.values()):
        return None
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    for number, rank in job.ranks.items():
        for row in rows(rank, "peers"):
            key = (number, int(count(row, "rank")))
            messages, size = pairs.get(key, (0, 0))
            pairs[key] = (messages + count(row, "messages"), size + count(row, "bytes"))
    return {key: sums for key, sums in pairs.items() if sums != (0, 0)}


def borders(places: list[tuple]) -> list[int]:
    """Where neighbours in a list differ."""
    return [i for i in range(1, len(places)) if places[i] != places[i - 1]]


def label(ranks: list[int]) -> str:
    """ "7", "4-7", or "0, 8, 16…" where they are not in a row."""
    if len(ranks) == 1:
        return str(ranks[0])
    if ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks[:3])) + ("…" if len(ranks) > 3 else "")


def stretches_of(order: list[int], nodes: list[int]) -> list[tuple[str, int, int]]:
    """Name, begin and end, in places of the order: of each node, in pieces of STRETCH ranks."""
    found = []
    for node, (first, end) in enumerate(pairwise([0, *nodes, len(order)])):
        for at in range(first, end, STRETCH):
            part = order[at : min(at + STRETCH, end)]
            found.append((f"node {node}: {label(part)}" if nodes else label(part), at, at + len(part)))
    return found


def far_shares(job: Job, pairs: dict, where: dict[int, int]) -> float | None:
    """The share of bytes between ranks of different places; None where places are not known."""
    known = [(where[a] != where[b], size) for (a, b), (_, size) in pairs.items() if a in where and b in where]
    whole = sum(size for _, size in known)
    return sum(size for apart, size in known if apart) / whole if whole else None


def matrix_of(job: Job) -> dict | None:
    """`cells`: [sender's block, receiver's block, messages, bytes]. Blocks are of ranks ordered by node and socket;
    borders between nodes and sockets are in blocks, and may lie within one. `pairs_of_ranks`: cells rank by rank, where
    blocks have several and the pairs are not too many."""
    pairs = pairs_of(job)
    if pairs is None:
        return None
    everyone = {*job.ranks, *(peer for _, peer in pairs)}
    order = sorted(everyone, key=lambda r: (job.node.get(r, 1 << 30), job.socket.get(r, 0), r))
    per_block = max(ceil(len(order) / MOST_BLOCKS), 1)
    at = {rank: i for i, rank in enumerate(order)}
    cells: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0, 0])
    for (sender, receiver), (messages, size) in pairs.items():
        cell = cells[at[sender] // per_block, at[receiver] // per_block]
        cell[0] += messages
        cell[1] += size
    nodes = borders([(job.node.get(r),) for r in order])
    sockets = [b for b in borders([(job.node.get(r), job.socket.get(r)) for r in order]) if b not in nodes]
    heaviest = heapq.nlargest(HEAVIEST, pairs.items(), key=lambda p: p[1][::-1])
    sockets_of = {r: (job.node.get(r), s) for r, s in job.socket.items()}
    exact = per_block > 1 and len(pairs) <= MOST_PAIRS
    return {
        "ranks_per_block": per_block,
        "order": order,
        "pairs_of_ranks": [[at[a], at[b], *sums] for (a, b), sums in sorted(pairs.items())] if exact else None,
        "stretches": stretches_of(order, nodes) if len(order) > STRETCH else [],
        "blocks": [label(order[i : i + per_block]) for i in range(0, len(order), per_block)],
        "cells": [[*key, *sums] for key, sums in sorted(cells.items())],
        "node_borders": [b / per_block for b in nodes],
        "socket_borders": [b / per_block for b in sockets],
        "pairs": len(pairs),
        "messages": sum(m for m, _ in pairs.values()),
        "bytes": sum(b for _, b in pairs.values()),
        "heaviest": [{"from": a, "to": b, "messages": m, "bytes": n} for (a, b), (m, n) in heaviest],
        "between_nodes": far_shares(job, pairs, job.node) if nodes else None,
        "between_sockets": far_shares(job, pairs, sockets_of) if len(set(sockets_of.values())) > 1 else None,
    }
