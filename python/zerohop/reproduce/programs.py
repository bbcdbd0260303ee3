"""Figures made of other commands of zerohop: applications, the costs that `tune` measures, raw copies."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from zerohop.interval import Interval
from zerohop.model_report import middleware_of
from zerohop.reproduce.describe import Claim, Figure, K, M
from zerohop.reproduce.judge import LEAST_LAUNCHES, Finding
from zerohop.reproduce.measure import Broken, Lab, Made, Panel, Unavailable, busy_notes, crowd

SHARES = {
    "below 1K": ("<1K", 0, K),
    "1K-32K": ("1K-32K", K, 32 * K),
    "32K-1M": ("32K-1M", 32 * K, M),
    "above 1M": (">=1M", M, 1 << 62),
}  # the statistics' names
COUNTS = {"1K-8K": (K, 8 * K), "4M-16M": (4 * M, 16 * M), "16M-64M": (16 * M, 64 * M)}  # of the LiMIC paper's tables


def value(claim: Claim, found: dict[str, Interval], *, gain: bool = False) -> Finding:
    ours = found.get(claim.new)
    return Finding(claim.what, claim.paper, ours, is_gain=gain, why=f"no value: {claim.new}")


# ---- applications


def app_rows(lab: Lab, figure: Figure) -> tuple[list[dict], list[str]]:
    a = figure.args
    if lab.where:
        raise Unavailable("applications run under the MPI libraries that --under names, not by --mpiexec or --bench")
    words = ["bench", "apps", a["apps"], "--classes", a["classes"], "--ranks", a.get("ranks", "8")]
    counted = a["value"] in ("sizes", "counts")  # of one launch, and the same in all
    words += ["--hosts", lab.host, "--rounds", "1" if counted else str(lab.rounds)]
    words += ["--against", a["against"].options] if "against" in a else []
    rows = lab.json_of(*words)["rows"]
    wrong = [r["app"] for r in rows if not r["verified"]]
    if wrong:
        raise Broken(f"wrong results of {', '.join(wrong)}")
    return rows, words


def inverse(ratio: dict) -> Interval | None:
    count = ratio.get("count", LEAST_LAUNCHES if ratio["valid"] else 1)
    if ratio["low"] <= 0:
        return None
    return Interval(1 / ratio["median"], 1 / ratio["high"], 1 / ratio["low"], count, ratio["valid"])


def name_of(row: dict) -> str:
    """A program, and which of its parts where it times several."""
    return f"{row['app']} {row.get('part', '')}".strip()


def messages_of(row: dict, ranks: int) -> list[tuple[float, float]]:
    """Count and bytes of the messages that a row's collectives were in the papers' libraries; here they are none.

    Alltoall by pairwise exchange, allreduce and scan by doubling, barrier by dissemination, reduce and bcast by a tree.
    """
    doubling, pairwise = ((ranks - 1).bit_length(), 1), (ranks - 1, 1 / ranks)
    ways = dict.fromkeys(("MPI_Allreduce", "MPI_Barrier", "MPI_Scan", "MPI_Exscan"), doubling)
    ways |= dict.fromkeys(("MPI_Alltoall", "MPI_Alltoallv"), pairwise)
    ways |= dict.fromkeys(("MPI_Reduce", "MPI_Bcast"), ((ranks - 1) / ranks, 1))
    calls = (row.get("size_table") or {}).get("calls", {})
    return [
        (of["calls"] * ways[name][0], of["bytes"] / of["calls"] * ways[name][1])
        for name, of in calls.items()
        if of["calls"] and name in ways
    ]


def app_values(rows: list[dict], what: str, ranks: int) -> dict[str, Interval]:
    """By "is", "hpcc HPL" or, of message sizes, "is 1K-32K": what the figure's claims name."""
    out: dict[str, Interval | None] = {}
    for row in rows:
        name, table = name_of(row), row.get("size_table") or {}
        parts = messages_of(row, ranks)
        total = sum(table.get("messages", {}).values()) + sum(count for count, _ in parts)
        if what in ("ratio", "mpi_ratio") and row.get(what):
            out[name] = inverse(row[what])
        elif what == "sizes" and total:  # shares of nothing are no shares
            for share, (key, low, high) in SHARES.items():
                count = table["messages"].get(key, 0) + sum(count for count, size in parts if low <= size < high)
                out[f"{name} {share}"] = Interval.computed(100 * count / total)
        elif what == "counts" and total:
            for share, (low, high) in COUNTS.items():
                counts = [count for below, count in table["below"].items() if low < int(below) <= high]
                counts += [count for count, size in parts if low <= size < high]
                out[f"{name} {share}"] = Interval.computed(sum(counts))
    return {name: ours for name, ours in out.items() if ours}


def calls_of(row: dict) -> str:
    calls = (row.get("size_table") or {}).get("calls", {})
    told = (f"{name} {of['calls']} of {of['bytes'] / of['calls']:.0f} B" for name, of in calls.items() if of["calls"])
    return f"{name_of(row)}: collectives, no messages here, are counted as the papers': {', '.join(told) or 'none'}"


def programs(lab: Lab, figure: Figure) -> Made:
    rows, words = app_rows(lab, figure)
    what, arm = figure.args["value"], figure.args.get("against")
    ranks = int(figure.args.get("ranks", "8"))
    found, notes = app_values(rows, what, ranks), []
    unit = {"ratio": "s", "mpi_ratio": "s in MPI"}.get(what, "")
    panel = Panel(f"class {figure.args['classes']}", "application", unit)
    for row in rows if unit else ():
        for name in ("host", "zerohop"):
            s = row.get(f"{name}_s") if what == "ratio" else (row.get("mpi_s") or {}).get(name)
            if s:
                seconds = Interval(s["median"], s["low"], s["high"], s.get("count", 0), s["valid"])
                panel.series.setdefault(arm.name if arm and name == "host" else name, {})[name_of(row)] = seconds
    if not unit:
        panel.y = "% of messages" if what == "sizes" else "messages"
        notes = [calls_of(row) for row in rows]
        for at, interval in found.items():
            app, name = at.split(" ", 1)
            panel.series.setdefault(name, {})[app] = interval
    findings = [value(c, found, gain=c.kind == "gain") for c in figure.claims]
    for finding in findings if unit else ():
        finding.note = crowd(ranks, len(os.sched_getaffinity(0)))
    return Made([panel], findings, notes, [words])


# ---- costs of messages


BETWEEN = ("--machines", "2")


def tuned(lab: Lab, *words: str) -> list[dict]:
    """Profiles of this machine's costs, each of launches of its own: what they differ by is an interval."""
    if words and "--mpiexec" in lab.where:
        raise Unavailable("the two nodes are namespaces, to which --mpiexec does not reach")
    return lab.repeated("tune", *lab.under, "--rounds", "1", *words)


def series_of(points: dict[str, dict], panel: Panel) -> None:
    """Into the panel: medians of several values by series and x."""
    for name, by_x in points.items():
        panel.series[name] = {x: i for x, values in by_x.items() if (i := Interval.of(values))}


def points_by_series() -> dict[str, dict]:
    return defaultdict(lambda: defaultdict(list))


def costs(lab: Lab, figure: Figure) -> Made:
    """Overhead and latency of the middleware (mlog_nP paper, section 5.1), inside a node and between two."""
    panel, points = Panel("middleware, contiguous", "bytes", "µs"), points_by_series()
    overheads, both, latencies = [], [], defaultdict(list)
    for profile in tuned(lab, *BETWEEN):
        lines = [m for m in middleware_of(profile) if m["bytes"] > 0 and m["node_us"] > 0]
        for line in lines:
            if line["stride"] == 0:
                points["inside a node"][line["bytes"]].append(line["node_us"])
                points["between nodes"][line["bytes"]].append(line["between_us"])
            else:
                latencies[line["bytes"], line["stride"]].append(100 * line["less"])
        plain = {m["bytes"]: m for m in lines if m["stride"] == 0}
        overheads += [100 * statistics.mean(m["less"] for m in plain.values())] if plain else []
        whole = [[m[k] + plain[m["bytes"]][k] for k in ("node_us", "between_us")]
                 for m in lines if m["stride"] > 0 and m["bytes"] in plain]  # fmt: skip
        both += [100 * statistics.mean(1 - node / between for node, between in whole)] if whole else []
    series_of(points, panel)
    # The paper tells the means of overheads and of both, the greatest of latencies.
    found = {"overhead": Interval.of(overheads), "both": Interval.of(both)}
    found["latency"] = max(map(Interval.of, latencies.values()), key=lambda i: i.median, default=None)
    commands = [["tune", "--json", "FILE", "--rounds", "1", *BETWEEN]]
    return Made([panel], [value(c, found) for c in figure.claims], commands=commands)


def errors(lab: Lab, figure: Figure) -> Made:
    """Predictions of strided broadcasts beside their times (mlog_nP paper, section 5.2), each by its own profile."""
    shapes = ["bench", "coll", "--only", f"{figure.args['algorithm']}_bcast", *lab.under, "--rounds", "1"]
    shapes += ["--layout", "2x2"] + ([] if "--mpiexec" in lab.where else ["--hosts", lab.host])
    panel, points = Panel("2x2", "shape", "µs"), points_by_series()
    shares: dict[str, list[float]] = defaultdict(list)
    for profile in tuned(lab, *BETWEEN):
        if 0 < profile.get("processors_per_node", 0) < 4:
            raise Unavailable("four ranks mix levels, and models know nothing of more ranks than processors")
        with tempfile.TemporaryDirectory() as folder:
            here, measured = Path(folder) / "here.json", Path(folder) / "shapes.json"
            here.write_text(json.dumps(profile))
            lab.run(*shapes, "--json", str(measured))
            report = json.loads(lab.run("model", "report", str(measured), "--profile", str(here), "--json"))
        for point in report["points"]:
            name = f"{point['bytes'] // K}K{point['stride']}S"  # as the paper has it
            points["measured"][name].append(point["measured_us"]["median"])
            for model, us in {**point["walk_us"], **point["closed_form_us"]}.items():
                points[model][name].append(us)
        by_way = {line["prediction"]: line["mean_error"] for line in report["errors"]}
        for model, share in {**by_way.get("walk", {}), **by_way.get("closed_form", {})}.items():
            shares[model].append(100 * share)
    series_of(points, panel)
    pairs = zip(shares["log3P"], shares["2log{2,3}P"], strict=False)
    shares["log3P by 2log{2,3}P"] = [before / after for before, after in pairs if after > 0]
    found = {name: i for name, values in shares.items() if (i := Interval.of(values))}
    commands = [["tune", "--json", "here.json", "--rounds", "1", *BETWEEN], [*shapes, "--json", "shapes.json"],
                ["model", "report", "shapes.json", "--profile", "here.json"]]  # fmt: skip
    findings = [value(c, found, gain=c.paper[1] is None) for c in figure.claims]
    return Made([panel], findings, ["4 ranks on 2 nodes; the paper: 64 on 8"], commands)


def readers(lab: Lab, figure: Figure) -> Made:
    """Several readers of one rank's memory at once (multicore collectives paper, figure 2 (a))."""
    profiles = tuned(lab)
    machine = json.loads(lab.run("info", "--json"))["machine"]
    most = machine["cores"] // max(1, machine["l3_caches"] or machine["l2_caches"])
    if most < 2 or profiles[0].get("processors_per_node") != machine["cpus"]:
        raise Unavailable("readers of one cache need all processors, and two cores that share a cache")
    panel, points, ratios, steps = Panel("slowest reader", "readers", "µs"), points_by_series(), [], []
    for row in (row for profile in profiles for row in profile.get("contention", [])):
        for n, us in row["us"]:
            points[f"{row['way']}, {row['bytes'] // K}K"][n].append(us)
        if (row["way"], row["bytes"]) == ("mapped", 16 * K):
            at = dict(map(tuple, row["us"]))
            inside = at[max(n for n in at if n <= most)]
            ratios.append(inside / at[1])
            steps += [at[max(at)] / inside] if max(at) > most else []
    series_of(points, panel)
    if not ratios:
        raise Unavailable("readers of 16 KiB at once were not measured: it needs two processors and mapped memory")
    found = {"readers": Interval.of(ratios), "step": Interval.of(steps)}
    notes = [f"{most} cores share a cache here; the paper: 4 of a socket"]
    return Made([panel], [value(c, found) for c in figure.claims], notes, [["tune", "--json", "FILE", "--rounds", "1"]])


# ---- parts of a message


def breakdown(lab: Lab, figure: Figure) -> Made:
    """Parts of a message that the kernel copies, and of its posting (LiMIC paper, section 5.1)."""
    parts = figure.args["parts"]
    words = ["bench", "breakdown", "--sizes", "1K,4K,16K,64K,256K", "--rounds", "8" if lab.quick else "20"]
    document = lab.measured(*words)
    if document["emulated"]:
        raise Unavailable("software emulates the processors: no time says anything")
    panels: dict[str, Panel] = {}
    found = {}
    for row in document["rows"]:
        if figure.args.get("way", row["way"]) != row["way"]:
            continue
        panel = panels.setdefault(row["way"], Panel(row["way"], "bytes", "µs", {part: {} for part in parts}))
        for name in parts:
            panel.series[name][row["size"]] = interval_of(row[f"{name}_us"])
        found[f"copy at {row['size'] // K}K"] = interval_of(row["copy_percent"])
        pin, whole = row["pin_us"], row["post_us"]["median"]
        shares = {k: 100 * pin[k] / whole for k in ("median", "low", "high")}
        found[f"pin at {row['size'] // K}K"] = interval_of(pin | shares)
    if not panels:
        raise Unavailable("; ".join(f"{way}: {why}" for way, why in document["not_measured"].items()))
    return Made(list(panels.values()), [value(c, found) for c in figure.claims], busy_notes(document), [words])


def interval_of(kept: dict) -> Interval:
    return Interval(kept["median"], kept["low"], kept["high"], kept["count"], kept["valid"])
