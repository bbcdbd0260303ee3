"""The project's own limits on what `zerohop bench p2p --json` and `bench coll --json` measured: met, missed or open.

    zerohop python limits p2p.json

A limit is met where the whole 95 % interval keeps it, missed where the whole interval breaks it. Times are one way
(ping-pong) or per message (streams). Exit code 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from zerohop.command_line import Parser, results

K, M, ANY = 1 << 10, 1 << 20, 1 << 62

# Benchmark, metric, least and greatest size, other keys of the row, what is compared, bound. Compared: an interval of
# the row by name, "raw" (zerohop's time by the best raw way's), "extra" (beyond raw way and line, µs), "excess" (above
# the raw line, by the best peer's); AT_LEAST turns the bound round.
AT_LEAST = (">=", "value")
P2P = (
    ("latency", "time_us", 8, 8, {"buffers": "malloc"}, "excess", 0.5),
    ("latency", "time_us", K, K, {"buffers": "malloc"}, "to_best_peer", 0.75),
    ("latency", "time_us", 8, 4 * M, {}, "to_best_peer", 1.05),
    ("latency", "time_us", 16 * K, 16 * K, {}, "to_best_peer", 0.8),
    ("latency", "time_us", 64 * K, 4 * M, {"placement": "near"}, "to_best_peer", 1 / 1.6),
    ("latency", "time_us", M, 4 * M, {"placement": "far"}, "to_best_peer", 1 / 4),
    ("latency", "time_us", 8, ANY, {}, "to_heap_off", 1.05),
    ("noreuse", "time_us", 8, ANY, {}, "to_heap_off", 1.05),
    ("first", "time_us", 8, ANY, {}, "to_heap_off", 1.05),
    ("latency", "time_us", 64 * K, 4 * M, {}, "raw", 1.20),
    ("latency", "time_us", 8, 4 * K, {}, "extra", 0.080),
    ("latency", "time_us", 8, ANY, {}, "to_own_host", 1.05),
    ("bandwidth", "time_us", 8, ANY, {}, "to_own_host", 1.05),
    ("bidirectional", "time_us", 8, ANY, {}, "to_own_host", 1.05),
    ("rate", "time_us", 8, 8, {}, "to_best_peer", 1 / 1.5),
    ("rate", "time_us", 8, 8, {}, "raw", 1.30),
    ("overlap", "over_share", 256 * K, ANY, {"variant": "receiver_computes"}, AT_LEAST, 0.95),
    ("pairs", "time_us", 8, 8, {"ranks": 8}, "to_best_peer", 1 / 1.3),
    ("exchange", "time_us", 8, 8, {"ranks": 8}, "to_best_peer", 1 / 1.3),
)
# Geometric means of the blocking collectives' ratios to the best peer, with 2 ranks and with 8 or more.
TWICE = ("barrier", "reduce", "allreduce", "allgather", "alltoall", "reduce_scatter")
COLLECTIVES = dict.fromkeys(TWICE, (1 / 1.5, 1 / 2)) | dict.fromkeys(("bcast", "gather", "scatter"), (1 / 1.5, 1 / 1.3))


def changed(interval: dict, change) -> dict:
    return interval | {k: change(interval[k]) for k in ("median", "low", "high")}


def value_of(row: dict, compared: str | tuple) -> dict | None:
    own, raw, line = row["zerohop"], row.get("raw_us"), row["line_us"]
    if compared == AT_LEAST:
        return own
    if compared in ("raw", "extra"):
        return own and raw and changed(own, lambda z: z / raw if compared == "raw" else z - raw - line)
    if compared != "excess":
        return row[compared]
    peer = row["peers"].get(row["best_peer"])
    return own and peer and changed(own, lambda z: (z - line) / (peer["median"] - line))


def verdict_of(value: dict, bound: float, at_least: bool) -> str:
    if not value["valid"]:
        return "open"
    good, bad = (
        (value["low"] >= bound, value["high"] < bound) if at_least else (value["high"] <= bound, value["low"] > bound)
    )
    return "met" if good else "missed" if bad else "open"


def judged_rows(rows: list[dict]) -> list[tuple[str, str]]:
    out = []
    for row in rows:
        for bench, metric, least, most, where, compared, bound in P2P:
            if (row["bench"], row["metric"]) != (bench, metric) or not least <= row["size"] <= most:
                continue
            if any(row[k] != v for k, v in {"ranks": 2 if bench != "everybody" else row["ranks"], **where}.items()):
                continue
            # Intel MPI's cells are as good as cells get: docs/results/README.md gives the reason.
            if (compared, bound, row["best_peer"]) == ("to_best_peer", 1.05, "impi") and row["size"] <= 256 * K:
                bound = 1.10
            value = value_of(row, compared)
            if value:
                verdict = verdict_of(value, bound, compared == AT_LEAST)
                where = f"{row['buffers']} {row['placement']} {row['host']}"
                what = f"{bench} {row['variant']} {row['size']} B {metric} {where}"
                out.append((verdict, f"{what}: {compared} {value['median']:.3g}, limit {bound:.3g}"))
    return out


def judged_shares(rows: list[dict]) -> list[tuple[str, str]]:
    """What is derived of several rows: growth behind 10,000 others, skew's slope, a job of many ranks."""
    out = []

    def judge(row: dict, what: str, value: float, bound: float, *, at_least: bool = False) -> None:
        verdict = "met" if (value >= bound if at_least else value <= bound) else "missed"
        out.append(
            (
                verdict,
                f"{row['bench']} {row['variant']} {row['placement']} {row['host']}: {what} {value:.3g}, limit {bound}",
            )
        )

    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        key = (row["bench"], row["metric"], row["size"], row["variant"], row["placement"], row["host"])
        groups.setdefault(key, []).append(row)
    for (bench, metric, size, variant, *_), group in groups.items():
        first, last = min(group, key=lambda r: r["param"]), max(group, key=lambda r: r["param"])
        least, most = first["zerohop"]["median"], last["zerohop"]["median"]
        if (bench, metric) == ("queues", "time_us") and first["param"] == 0 < last["param"] and least > 0:
            judge(last, "latency behind others by that without", most / least, 2.0)
        if (bench, metric, size) == ("skew", "c3_us", 16 * K) and first is not last:
            # 1 when the producer waits for the consumer, 0 when it does not; the window is 64 messages.
            slope, papers = (most - least) / (64 * (last["param"] - first["param"])), variant == "single_copy_skew_off"
            judge(last, "slope of the producer's time", slope, 0.8 if papers else 0.1, at_least=papers)
        if (bench, metric) == ("everybody", "memory_after_kib"):
            judge(last, "memory by 4 MiB a rank and 64 KiB a peer", most / (4096 + 64 * (last["ranks"] - 1)), 1.0)
        if (bench, metric) == ("everybody", "wall_s") and last["host"] in last["peers"]:
            host = last["peers"][last["host"]]["median"]
            judge(last, "job's time by the host's and 10 %, or 0.5 s", most / (host + max(0.1 * host, 0.5)), 1.0)
    return out


def judged_means(summary: list[dict]) -> list[tuple[str, str]]:
    out = []
    for s in summary:
        bounds, mean = COLLECTIVES.get(s["bench"]), s.get("to_best_peer")
        if (
            not bounds
            or not mean
            or s["variant"].startswith(("nonblocking", "persistent"))
            or mean["sizes"] < s["sizes"]
        ):
            continue
        if s["ranks"] == 2 or s["ranks"] >= 8:
            bound = bounds[0] if s["ranks"] == 2 else bounds[1]
            verdict = "missed" if mean["mean"] > bound else "met"
            what = f"{s['bench']} {s['ranks']} ranks {s['placement']} {s['host']}"
            out.append((verdict, f"{what}: mean of the ratios to the best peer {mean['mean']:.3g}, limit {bound:.3g}"))
    return out


def main() -> int:
    parser = Parser("zerohop python limits", __doc__)
    parser.add_argument("--zerohop", help=argparse.SUPPRESS)
    parser.add_argument("file", type=Path)
    document = results(parser.parse_args().file)
    found = (
        judged_rows(document["rows"])
        + judged_shares(document["rows"])
        + judged_means([s for s in document.get("summary", []) if "sizes" in s])
    )
    for verdict, told in found:
        print(f"{verdict:<7} {told}")
    counts = {v: sum(x == v for x, _ in found) for v in ("met", "missed", "open")}
    print(f"limits: {counts['met']} met, {counts['missed']} missed, {counts['open']} open")
    return 1 if counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
