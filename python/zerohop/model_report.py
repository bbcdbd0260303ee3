"""`zerohop model report`: models of collectives beside what was measured, and the algorithms that they choose.

    zerohop tune --json here.json
    zerohop bench algorithms --only bcast --ranks 2,4 --json measured.json
    zerohop model report measured.json --profile here.json --points

Each measured algorithm is predicted by four models: by the paper's closed form where it has one and by a walk of the
steps that run. The errors stand beside the measurement's own spread, by shape and algorithm. A model whose costs
between nodes were not measured is left out where it takes them; a prediction beyond the profile's tables is marked.
Where ranks share a processor, the walk is told how many have to; but models know no scheduler, so the comparison does
not hold there. With a profile of measured nodes the paper's figure 2 comes first: what the middleware costs in a node
and between nodes. Then the choices, that of `zerohop tune --model` by this profile and the built-in one, as multiples
of the fastest's time: near the best within 10 %, open where the 95 % intervals overlap, else wrong. The papers'
clusters by these costs: `zerohop reproduce`. Exit code 2 if there is nothing to report.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from zerohop.command_line import Parser, read_object
from zerohop.progress import Progress
from zerohop.report import text as texts

SCHEMA = "zerohop-model-report/1"
MEASURED = "zerohop-bench-algorithms/1"
MODELS = ("log3P", "2log{2,3}P", "mlog_nP", "mlog_nP+links")
USUAL_CHUNK = 64 << 10
OWN_CHOICE = "auto"
NEAR = 1.10  # a choice that takes at most so many times the best's time is a good one
SLOWER = 1.05  # zerohop by itself counts as slower than the host from there on


class Nothing(Exception):
    """Why there is nothing to report."""


class Zerohop:
    """The command, by its JSON."""

    def __init__(self, command: str, profile: str) -> None:
        self.command, self.profile = command, profile
        self.ask = functools.cache(self._ask)
        self.costs = self.ask("tune", "--profile", profile)

    def _ask(self, *words: str) -> dict:
        r = subprocess.run([self.command, *words], capture_output=True, text=True, check=False)
        if r.returncode != 0:
            raise Nothing(r.stderr.strip())
        return json.loads(r.stdout)

    def processors_per_node(self, case: dict) -> int:
        """0: unknown. Nodes of one machine share its processors."""
        known = self.costs.get("processors_per_node", 0)
        return max(1, known // (case["nodes"] if case["one_machine"] else 1)) if known else 0

    def processors(self, case: dict) -> list[str]:
        known = self.processors_per_node(case)
        return ["--processors", str(known)] if known else []

    def schedule(self, case: dict, *words: str) -> dict:
        how = ["--nodes", str(case["nodes"]), "-r", str(case["ranks"]), "-b", str(case["bytes"])]
        how += ["--cyclic"] if case["cyclic"] else []
        return self.ask("schedule", case["collective"], *how, *words, "--no-steps", "--json")

    def costs_of(self, case: dict, *words: str) -> dict:
        how = ["-a", case["algorithm"], "-c", str(case["chunk_bytes"]), "--stride", str(case["stride"])]
        how += ["--profile", self.profile, *self.processors(case), *words]
        return self.schedule(case, *how)["costs"]

    def predict(self, case: dict, *words: str) -> list[dict]:
        """A line for each model."""
        return self.costs_of({"one_machine": True} | case, *words)["models"]

    def is_measured(self, model: str, nodes: int) -> bool:
        """Whether all costs that a model takes there were measured; of a built-in profile none was."""
        levels = self.costs.get("measured_levels", [])
        takes_network = model == "log3P" or nodes > 1
        return not levels or not takes_network or any(x.get("stands_for") == "inter-node" for x in levels)


def measured_cases(path: Path, own_nodes: int = 0) -> list[dict]:
    """`own_nodes`: how many machines of their own the jobs were on; 0: the rows say how this one was divided."""
    document = read_object(path)
    if document.get("schema") != MEASURED:
        raise Nothing(f"{path}: it is no result of `zerohop bench algorithms --json`")
    cases = []
    for row in document["rows"]:
        ranks, node_ranks, us = row["ranks"], row.get("node_ranks", 0), row.get("slowest_us")
        nodes = own_nodes or (ranks // node_ranks if node_ranks else row.get("machines", 1))
        if not us or us["median"] <= 0 or ranks % nodes:
            continue
        case = {k: row[k] for k in ("collective", "chunk_bytes", "bytes", "ranks")}
        case |= {"algorithm": row["algorithm"].split("/")[0], "nodes": nodes, "cyclic": row.get("in_turn", False)}
        case["one_machine"] = own_nodes == 0
        cases.append(case | {"stride": row.get("stride", 0), "us": us, "to_host": row.get("to_host")})
    if not any(c["algorithm"] != OWN_CHOICE for c in cases):
        raise Nothing(f"{path}: none of its rows is an algorithm, timed and with ranks that go into nodes alike")
    return cases


def size(n: float) -> str:
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if n >= unit and n % unit == 0:
            return f"{int(n) // unit}{letter}"
    return f"{n:.12g}"


def shape(case: dict) -> str:
    return f"{case['nodes']}x{case['ranks'] // case['nodes']}{' in turn' if case['cyclic'] else ''}"


def setting(case: dict) -> str:
    chunk = case["chunk_bytes"]
    return case["algorithm"] + ("" if chunk is None or chunk == USUAL_CHUNK else f"/{size(chunk)}")


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def table(rows: list[list[str]], left: int = 1) -> str:
    """The first row has the heads; the first `left` columns lie to the left."""
    units = ["" if i < left else "count" for i in range(len(rows[0]))]
    return texts.table(rows[0], rows[1:], units, texts.shown_columns()) + "\n"


# ---- errors


def points_of(zerohop: Zerohop, cases: Iterable[dict]) -> Iterator[dict]:
    for case in cases:
        if case["algorithm"] == OWN_CHOICE:
            continue
        point = {k: v for k, v in case.items() if k not in ("us", "to_host")}
        point |= {"measured_us": case["us"], "closed_form_us": {}, "walk_us": {}}
        processors = zerohop.processors_per_node(case)
        point["ranks_per_processor"] = case["ranks"] / case["nodes"] / processors if processors else None
        point["holds"] = not processors or point["ranks_per_processor"] <= 1
        # Strided broadcasts are made of messages, other calls block.
        jobs = [] if case["stride"] else ["--as-jobs"]
        try:
            costs = zerohop.costs_of(case, *jobs)
        except Nothing as why:
            point["no_walk"] = str(why)
            costs = {"models": [], "beyond_tables": False}
        point["beyond_tables"] = costs["beyond_tables"]
        for line in costs["models"]:
            if zerohop.is_measured(line["model"], case["nodes"]):
                for way in ("closed_form_us", "walk_us"):
                    if line[way] is not None:
                        point[way][line["model"]] = line[way]
        yield point


def errors_of(points: list[dict]) -> list[dict]:
    """By algorithm, shape and way of predicting: mean and greatest error by model, as shares of what was measured."""
    groups: dict[tuple, list[tuple[dict, dict, dict]]] = defaultdict(list)
    for p in points:
        for way in ("closed_form_us", "walk_us"):
            if p[way]:
                key = (p["collective"], setting(p), shape(p), p["stride"] > 0, way.removesuffix("_us"))
                groups[key].append((p["measured_us"], p[way], p))
    out = []
    for (collective, name, where, strided, way), pairs in groups.items():
        spread = [(us["high"] - us["low"]) / 2 / us["median"] for us, _, _ in pairs if us["valid"]]
        line = {"collective": collective, "setting": name, "shape": where, "strided": strided, "prediction": way}
        line |= {
            "points": len(pairs),
            "beyond_tables": sum(p["beyond_tables"] for _, _, p in pairs),
            "holds": all(p["holds"] for _, _, p in pairs),
            "ranks_per_processor": pairs[0][2]["ranks_per_processor"],
            "measured_spread": sum(spread) / len(spread) if spread else None,
            "mean_error": {},
            "greatest_error": {},
        }
        for model in MODELS:
            errors = [abs(known[model] / us["median"] - 1) for us, known, _ in pairs if model in known]
            if errors:
                line["mean_error"][model] = sum(errors) / len(errors)
                line["greatest_error"][model] = max(errors)
        out.append(line)
    return out


def point_table(points: list[dict]) -> str:
    rows = [["µs", "", "bytes", "measured", *MODELS]]
    for p in points:
        us, stride = p["measured_us"], f"{p['stride']}S" if p["stride"] else ""  # "4K8S", as the paper has it
        name, measured = (
            f"{p['collective']} {setting(p)} {shape(p)}",
            f"{us['median']:.4g} [{us['low']:.4g}, {us['high']:.4g}]",
        )
        for way in ("closed_form_us", "walk_us"):
            if p[way]:
                mark = " >" if p["beyond_tables"] else ""
                known = [number(p[way][m]) + mark if m in p[way] else "-" for m in MODELS]
                rows.append(
                    [name, way.removesuffix("_us").replace("_", " "), size(p["bytes"]) + stride, measured, *known]
                )
    return table(rows, 2)


def error_table(errors: list[dict]) -> str:
    rows = [["error in %, mean / greatest", "", "points", "spread", *MODELS]]
    for e in errors:
        name = f"{e['collective']} {e['setting']}{' strided' if e['strided'] else ''} {e['shape']}"
        if not e["holds"]:
            name += f", {e['ranks_per_processor']:g} ranks a processor: no comparison"
        cells = []
        for m in MODELS:
            known = m in e["mean_error"]
            cells.append(f"{100 * e['mean_error'][m]:.1f} / {100 * e['greatest_error'][m]:.1f}" if known else "-")
        spread = "?" if e["measured_spread"] is None else f"{100 * e['measured_spread']:.1f}"
        rows.append([name, e["prediction"].replace("_", " "), str(e["points"]), spread, *cells])
    return table(rows, 2)


# ---- the middleware


def us_at(table: list[list[float]], size: int) -> float | None:
    """A cost at a measured size; nothing elsewhere."""
    return next((us for n, us in table if n == size), None)


def middleware_of(profile: dict) -> list[dict]:
    """Figure 2 of the mlog_nP paper: µs at one end in a node and between nodes, overhead o (stride 0) and latency l,
    and by what share less it is in a node. The paper has 49.2 % of o, up to 87.9 % of l, and 41 % of both."""
    inside, between = (profile["levels"][level] for level in ("intra-cmp", "inter-node"))
    lines = []
    for n, near in inside["overhead"]:
        far = us_at(between["overhead"], n)
        if far:
            lines.append({"bytes": int(n), "stride": 0, "node_us": near, "between_us": far, "less": 1 - near / far})
    rows = {row["stride"]: row["us"] for row in between.get("latency", [])}
    for row in inside.get("latency", []):
        for n, near in row["us"]:
            far = us_at(rows.get(row["stride"], []), n)
            if far:
                line = {"bytes": int(n), "stride": row["stride"], "node_us": near, "between_us": far}
                lines.append(line | {"less": 1 - near / far})
    return lines


def middleware_table(lines: list[dict]) -> str:
    rows = [["middleware at one end, µs", "in a node", "between nodes", "less in a node, %"]]
    for m in lines:
        name = f"overhead {size(m['bytes'])}" if m["stride"] == 0 else f"latency {size(m['bytes'])}{m['stride']}S"
        rows.append([name, number(m["node_us"]), number(m["between_us"]), f"{100 * m['less']:.1f}"])
    return table(rows)


# ---- choices


def apart(a: dict, b: dict) -> bool:
    """Whether the measurement tells the two times apart: both have an interval of 95 %, and these do not overlap."""
    return a["valid"] and b["valid"] and (a["low"] > b["high"] or b["low"] > a["high"])


def judged(choice: dict | None, settings: list[dict], best: dict) -> dict:
    """A choice beside the measured setting of its algorithm whose chunk is closest."""
    if choice is None:
        return {"setting": None, "is": "not measured"}
    out = {"setting": setting(choice), "is": "not measured"}

    def pieces(chunk: int | None) -> int:
        """A chunk that is as large as the vector cuts nothing."""
        return max(1, min(chunk or best["bytes"], best["bytes"]))

    def off(case: dict) -> float:
        wanted = choice["chunk_bytes"] if choice["chunk_bytes"] is not None else USUAL_CHUNK
        return abs(math.log(pieces(case["chunk_bytes"]) / pieces(wanted)))

    same = [c for c in settings if c["algorithm"] == choice["algorithm"]]
    if not same:
        return out
    measured = min(same, key=off)
    ratio = measured["us"]["median"] / best["us"]["median"]
    quality = "near" if ratio <= NEAR else "wrong" if apart(measured["us"], best["us"]) else "open"
    return out | {"measured_as": setting(measured), "ratio": ratio, "is": quality}


def by_model(zerohop: Zerohop, case: dict) -> dict | None:
    words = ["--model", zerohop.profile, "-r", str(case["ranks"]), "--nodes", str(case["nodes"]), "--print-json"]
    try:
        tables = zerohop.ask("tune", *words, *zerohop.processors(case))["tables"]
    except Nothing:
        return None
    (here,) = (t for t in tables if t["nodes"] == case["nodes"])
    entries = next(c["entries"] for c in here["collectives"] if c["collective"] == case["collective"])
    fitting = [e for e in entries if e["from_bytes"] <= case["bytes"]]
    return fitting[-1] if fitting else None


def built_in(zerohop: Zerohop, case: dict) -> dict:
    plan = zerohop.schedule(case, "-c", str(USUAL_CHUNK), "--as-jobs")
    if plan["left_to_host"]:
        return {"algorithm": "host", "chunk_bytes": 0}
    return {"algorithm": plan["algorithm"], "chunk_bytes": plan["chunk_bytes"]}


def groups_of(cases: list[dict]) -> list[list[dict]]:
    """A collective at one size on one cluster."""
    groups: dict[tuple, list[dict]] = defaultdict(list)
    for case in cases:
        if not case["stride"]:  # no collective of MPI's
            groups[tuple(case[k] for k in ("collective", "ranks", "nodes", "cyclic", "bytes"))].append(case)
    return list(groups.values())


def cells_of(zerohop: Zerohop, groups: Iterable[list[dict]]) -> Iterator[dict]:
    """Those where at least two settings were measured."""
    for group in groups:
        settings = [c for c in group if c["algorithm"] != OWN_CHOICE]
        if len(settings) < 2:
            continue
        best = min(settings, key=lambda c: c["us"]["median"])
        own = [c["to_host"] for c in group if c["algorithm"] == OWN_CHOICE and c["to_host"]]
        cell = {k: best[k] for k in ("collective", "ranks", "nodes", "cyclic", "bytes", "one_machine")}
        cell |= {"best": setting(best), "best_us": best["us"], "own_to_host": own[0] if own else None}
        cell["best_is_told"] = all(c is best or apart(c["us"], best["us"]) for c in settings)
        cell["model"] = judged(by_model(zerohop, best), settings, best)
        cell["built_in"] = judged(built_in(zerohop, best), settings, best)
        yield cell


def counts_of(cells: list[dict], which: str) -> dict:
    counts = {q: sum(c[which]["is"] == q for c in cells) for q in ("near", "open", "wrong", "not measured")}
    return counts | {"greatest_ratio": max((c[which].get("ratio", 0) for c in cells), default=0)}


def slower_cells(cells: list[dict]) -> list[str]:
    told = []
    for c in cells:
        own = c["own_to_host"]
        if own and own["median"] > SLOWER:
            surely = own["valid"] and own["low"] > SLOWER
            where = f"{c['collective']} {shape(c)} {size(c['bytes'])}"
            told.append(f"{where} {own['median']:.2f}{'' if surely else ' [?]'}")
    return told


def cell_table(cells: list[dict]) -> str:
    def text(choice: dict) -> str:
        if "ratio" not in choice:
            return f"{choice['setting'] or '-'} ?"
        return f"{choice['measured_as']} {choice['ratio']:.2f}{'' if choice['is'] == 'near' else ' ' + choice['is']}"

    rows = [["collective", "bytes", "best, µs", "model, times the best's", "built in", "to host"]]
    for c in cells:
        best = f"{c['best']} {number(c['best_us']['median'])}{' told' if c['best_is_told'] else ''}"
        own = number(c["own_to_host"]["median"]) if c["own_to_host"] else "-"
        rows.append(
            [f"{c['collective']} {shape(c)}", size(c["bytes"]), best, text(c["model"]), text(c["built_in"]), own]
        )
    return table(rows, 5)


def choices_text(choices: dict) -> str:
    text = ""
    for which, name in (("model", "model's choice"), ("built_in", "built-in choice")):
        counts = dict(choices[which])
        worst = counts.pop("greatest_ratio")
        said = ", ".join(f"{quality} in {n}" for quality, n in counts.items())
        text += f"{name}: {said} of {len(choices['cells'])} cells; at worst {worst:.2f} times the best's time\n"
    slower = ", ".join(choices["slower_than_host"]) or "nowhere"
    return text + f"zerohop by itself is slower than the host by more than 5 % ([?]: not surely): {slower}\n"


def report(arguments: argparse.Namespace) -> tuple[dict, str]:
    zerohop = Zerohop(arguments.zerohop, arguments.profile)
    out: dict = {"schema": SCHEMA, "profile": {k: zerohop.costs.get(k) for k in ("name", "about", "sources")}}
    text = f"profile {zerohop.costs['name']}: {zerohop.costs.get('about', '')}\n\n"
    if arguments.file is None:
        raise Nothing("name a file of `zerohop bench algorithms --json`")
    cases = measured_cases(arguments.file, arguments.nodes)
    groups = groups_of(cases)
    with Progress("model report", len(cases) + len(groups)) as progress:
        points = list(points_of(zerohop, progress.each(cases, "predictions")))
        cells = list(cells_of(zerohop, progress.each(groups, "choices")))
    errors = errors_of(points)
    if not errors and not cells:
        raise Nothing(f"{arguments.file}: nothing of it is priced ({points[0].get('no_walk', 'no measured costs')})")
    out |= {"points": points, "errors": errors, "choices": {"cells": cells, "slower_than_host": slower_cells(cells)}}
    out["choices"] |= {which: counts_of(cells, which) for which in ("model", "built_in")}
    if zerohop.is_measured("log3P", 1):
        out["middleware"] = middleware_of(zerohop.costs)
        text += middleware_table(out["middleware"]) + "\n"
    text += point_table(points) + "\n" if arguments.points else ""
    text += error_table(errors) if errors else ""
    text += (
        "- 1x8: 1 node of 8 ranks. Spread is half the measurement's 95 % interval (?: too few\n"
        "  launches for one): an error below it says nothing.\n"
        "- >: beyond the profile's tables, on the continued lines.\n"
    )
    text += "\n" + cell_table(cells) if arguments.points and cells else ""
    return out, text + ("\n" + choices_text(out["choices"]) if cells else "")


def main() -> int:
    parser = Parser("zerohop model report", __doc__)
    parser.add_argument("--zerohop", default="zerohop", help=argparse.SUPPRESS)
    parser.add_argument(
        "file", nargs="?", type=Path, help="what `bench algorithms` or strided `bench coll` wrote by --json"
    )
    parser.add_argument("-p", "--profile", required=True, help="costs: a file of `zerohop tune --json`, or built in")
    parser.add_argument(
        "--nodes", type=int, default=0, help="machines of their own that the jobs were on (bench ... --mpiexec)"
    )
    parser.add_argument("--points", action="store_true", help="every size by itself, too")
    parser.add_argument("--json", action="store_true", help="print JSON; errors are shares, 0.05 for 5 %%")
    arguments = parser.parse_args()
    try:
        out, text = report(arguments)
    except Nothing as why:
        print(f"zerohop model report: {why}", file=sys.stderr)
        return 2
    print(json.dumps(out, indent=2) if arguments.json else text, end="\n" if arguments.json else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
