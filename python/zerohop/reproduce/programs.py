"""Figures made of other commands of zerohop: applications, the costs that `tune` measures, raw copies."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from zerohop.interval import Interval
from zerohop.reproduce.describe import Claim, Figure
from zerohop.reproduce.judge import LEAST_LAUNCHES, Finding
from zerohop.reproduce.measure import Broken, Lab, Made, Panel, Unavailable, Unresolved

KIB = 1 << 10
SHARES = {"below 1K": "<1K", "1K-32K": "1K-32K", "32K-1M": "32K-1M", "above 1M": ">=1M"}  # of the statistics


def value(claim: Claim, found: dict[str, Interval], *, gain: bool = False) -> Finding:
    ours = found.get(claim.new)
    return Finding(claim.what, claim.paper, ours, is_gain=gain, why=f"no value of {claim.new}")


# ---- applications


def app_rows(lab: Lab, figure: Figure) -> tuple[list[dict], list[str]]:
    a = figure.args
    words = ["bench", "apps", a["apps"], "--classes", a["classes"], "--ranks", a.get("ranks", "8")]
    counted = a["value"] in ("sizes", "counts")  # of one launch, and the same in all
    words += ["--hosts", lab.host, "--rounds", "1" if counted else str(lab.rounds)]
    rows = lab.json_of(*words)["rows"]
    wrong = [r["app"] for r in rows if not r["verified"]]
    if wrong:
        raise Broken(f"wrong results of {', '.join(wrong)}")
    return rows, words


def inverse(ratio: dict) -> Interval:
    count = ratio.get("count", LEAST_LAUNCHES if ratio["valid"] else 1)
    return Interval(1 / ratio["median"], 1 / ratio["high"], 1 / ratio["low"], count, ratio["valid"])


def name_of(row: dict) -> str:
    """A program, and which of its parts where it times several."""
    return f"{row['app']} {row.get('part', '')}".strip()


def app_values(rows: list[dict], what: str) -> dict[str, Interval]:
    """By "is", "hpcc HPL" or, of message sizes, "is 1K-32K": what the figure's claims name."""
    out: dict[str, Interval] = {}
    for row in rows:
        name, sizes = name_of(row), (row.get("size_table") or {}).get("messages", {})
        if what == "ratio" and row.get("ratio"):
            out[name] = inverse(row["ratio"])
        elif what == "mpi" and row.get("mpi_share") and row["mpi_share"]["zerohop"]:
            seconds = {k: row[f"{k}_s"]["median"] * row["mpi_share"][k] for k in ("host", "zerohop")}
            gain = seconds["host"] / seconds["zerohop"]
            out[name] = replace(inverse(row["ratio"]), median=gain, low=gain, high=gain)
        elif what in ("sizes", "counts") and sizes:
            scale = 100 / (sum(sizes.values()) or 1) if what == "sizes" else 1
            for share, key in SHARES.items():
                out[f"{name} {share}"] = Interval.computed(scale * sizes.get(key, 0))
    return out


def calls_of(row: dict) -> str:
    """Collectives, which the papers' libraries made of messages."""
    calls = (row.get("size_table") or {}).get("calls", {})
    told = (f"{name} {of['calls']} of {of['bytes'] / of['calls']:.0f} B" for name, of in calls.items() if of["calls"])
    return f"{name_of(row)}: collectives that share memory send no messages; calls: {', '.join(told) or 'none'}"


def programs(lab: Lab, figure: Figure) -> Made:
    rows, words = app_rows(lab, figure)
    what = figure.args["value"]
    found, notes = app_values(rows, what), []
    panel = Panel(f"class {figure.args['classes']}", "application", {"ratio": "s", "mpi": "s in MPI"}.get(what, ""))
    for row in rows:
        for name in ("host", "zerohop"):
            if row.get(f"{name}_s") and what in ("ratio", "mpi"):
                share = 1 if what == "ratio" else (row.get("mpi_share") or {}).get(name, 0)
                s = row[f"{name}_s"]
                seconds = Interval(*(s[k] * share for k in ("median", "low", "high")), s.get("count", 0), s["valid"])
                panel.series.setdefault(name, {})[name_of(row)] = seconds
    if what in ("sizes", "counts"):
        panel.y = "% of messages" if what == "sizes" else "messages"
        notes = [calls_of(row) for row in rows]
        for key, interval in found.items():
            app, name = key.split(" ", 1)
            panel.series.setdefault(name, {})[app] = interval
    findings = [value(c, found, gain=what == "ratio" or c.paper[1] is None) for c in figure.claims]
    return Made([panel], findings, notes, [words])


# ---- costs of messages


def tuned(lab: Lab, *words: str) -> dict:
    """A profile of this machine's costs."""
    try:
        return lab.measured("tune", "--under", lab.host, *words)
    except Broken as why:
        raise Unresolved(f"`zerohop tune` wrote no profile: {str(why).split(' | ')[-1]}") from why


def launches_of(profile: dict) -> int:
    return min((x["launches"] for x in profile.get("measured_levels", [])), default=0)


def costs(lab: Lab, figure: Figure) -> Made:
    """Overhead and latency of the middleware (mlog_nP paper, section 5.1), inside a node and between two."""
    profile = tuned(lab, "--machines", "2")
    inside, between = profile["levels"]["intra-cmp"], profile["levels"]["inter-node"]
    made = Made(commands=[["tune", "--json", "FILE", "--machines", "2"]])
    panel = Panel("middleware, contiguous", "bytes", "µs")
    ratios: dict[str, list[float]] = {"overhead": [], "latency": []}
    for name, level in (("inside a node", inside), ("between nodes", between)):
        panel.series[name] = {n: Interval.computed(us) for n, us in level["overhead"] if n > 0}
    far = dict(map(tuple, between["overhead"]))
    ratios["overhead"] = [far[n] / us for n, us in inside["overhead"] if n > 0 and us > 0 and n in far]
    strided = {(row["stride"], n): us for row in between.get("latency", []) for n, us in row["us"]}
    for row in inside.get("latency", []):
        ratios["latency"] += [
            strided[row["stride"], n] / us for n, us in row["us"] if us > 0 and (row["stride"], n) in strided
        ]
    found, count = {}, launches_of(profile)
    for name, all_ in ratios.items():
        if all_:  # the paper tells the mean of overheads, the greatest of latencies
            mid = statistics.mean(all_) if name == "overhead" else max(all_)
            found[name] = Interval(mid, min(all_), max(all_), count, count >= LEAST_LAUNCHES)
    made.panels, made.findings = [panel], [value(c, found, gain=True) for c in figure.claims]
    return made


def errors(lab: Lab, figure: Figure) -> Made:
    """Predictions of strided broadcasts beside their times (mlog_nP paper, section 5.2)."""
    shapes = ["bench", "coll", "--only", f"{figure.args['algorithm']}_bcast", *lab.where]
    shapes += [] if "--mpiexec" in lab.where else ["--hosts", lab.host, "--under", lab.host]
    shapes += ["--rounds", str(lab.rounds), "--layout", "1x2"]
    with tempfile.TemporaryDirectory() as folder:
        here, measured = Path(folder) / "here.json", Path(folder) / "shapes.json"
        here.write_text(json.dumps(tuned(lab)))
        lab.run(*shapes, "--json", str(measured))
        rows = json.loads(measured.read_text())["rows"]
        report = json.loads(lab.run("model", "report", str(measured), "--profile", str(here), "--json"))
    made = Made(commands=[["tune", "--json", "here.json"], [*shapes, "--json", "shapes.json"],
                          ["model", "report", "shapes.json", "--profile", "here.json"]])  # fmt: skip
    count = min((r["slowest_us"]["count"] for r in rows), default=0)
    panel = Panel("1x2", "shape", "µs")
    for point in report["points"]:
        name = f"{point['bytes'] // KIB}K{point['stride']}S"  # as the paper has it
        panel.series.setdefault("measured", {})[name] = Interval(
            *(point["measured_us"][k] for k in ("median", "low", "high", "count", "valid")))  # fmt: skip
        for model, us in {**point["walk_us"], **point["closed_form_us"]}.items():
            panel.series.setdefault(model, {})[name] = Interval.computed(us)
    found = {}
    for line in sorted(report["errors"], key=lambda e: e["prediction"] != "walk"):
        for model, share in line["mean_error"].items():
            found[model] = Interval(*([100 * share] * 3), count, count >= LEAST_LAUNCHES)
        if not line.get("holds", True):
            raise Unresolved("more ranks than processors, of which models know nothing")
        spread = f"{100 * line['measured_spread']:.1f} %" if line["measured_spread"] is not None else "unknown"
        made.notes.append(f"{line['prediction'].replace('_', ' ')}: the measurement's own spread is {spread}")
    made.notes.append("two ranks on one node, where no levels mix; the paper: 64 ranks on 8 nodes")
    made.panels, made.findings = [panel], [value(c, found) for c in figure.claims]
    return made


def readers(lab: Lab, figure: Figure) -> Made:
    """Several readers of one rank's memory at once (multicore collectives paper, figure 2 (a))."""
    profile = tuned(lab)
    rows = profile.get("contention", [])
    if not rows:
        raise Unavailable("readers at once need two processors and memory that can be mapped")
    panel, count = Panel("slowest reader", "readers", "µs"), launches_of(profile)
    for row in rows:
        panel.series[f"{row['way']}, {row['bytes'] // KIB}K"] = {n: Interval.computed(us) for n, us in row["us"]}
    row = min(rows, key=lambda r: abs(r["bytes"] - 16 * KIB))
    ratio = row["us"][-1][1] / row["us"][0][1]
    found = {"readers": Interval(ratio, ratio, ratio, count, not row.get("noisy", False))}
    made = Made([panel], [value(c, found) for c in figure.claims], commands=[["tune", "--json", "FILE"]])
    made.notes.append(f"{row['us'][-1][0]} readers at most, one a processor; the paper: 8")
    return made


# ---- parts of a message


def breakdown(lab: Lab, figure: Figure) -> Made:
    """Copy, kernel and rest of a message copied by the kernel (LiMIC paper, section 5.1.1)."""
    ways: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    words = ["bench", "raw", "--quick"]
    for _ in range(lab.rounds):
        for row in lab.json_of(*words)["rows"]:
            ways[row["way"]][row.get("size", 0)].append(row["us"])
    message = latencies(lab)
    parts: dict[str, dict[float, Interval]] = {"copy": {}, "trap and map": {}, "rest": {}}
    found: dict[str, Interval] = {}
    for n in sorted(set(ways["mapped-read"]) & set(ways["cma-read"]) & set(message)):
        triples = list(zip(ways["mapped-read"][n], ways["cma-read"][n], message[n], strict=False))
        shares = [100 * min(1, copy / max(whole, kernel)) for copy, kernel, whole in triples]
        found[f"copy at {n // KIB}K"] = Interval.of(shares)
        for name, of in (("copy", [c for c, _, _ in triples]), ("trap and map", [max(0, k - c) for c, k, _ in triples]),
                         ("rest", [max(0, w - k) for _, k, w in triples])):  # fmt: skip
            parts[name][n] = Interval.of(of)
    panel = Panel("a message copied by the kernel", "bytes", "µs", parts)
    return Made([panel], [value(c, found) for c in figure.claims], commands=[words])


def latencies(lab: Lab) -> dict[int, list[float]]:
    words = ["bench", "p2p", "--only", "latency", "--buffers", "malloc", "--raw", "off", *lab.where]
    words += [] if "--mpiexec" in lab.where else ["--under", lab.host]
    words += ["--rounds", str(lab.rounds), "--case-s", "0.2", "--arm", "kernel:heap=0,single_copy=1"]
    out: dict[int, list[float]] = defaultdict(list)
    for row in lab.json_of(*words)["rows"]:
        if row["series"] == "kernel" and row["metric"] == "time_us":
            out[row["bytes"]] += [launch["value"] for launch in row["launches"]]
    return out
