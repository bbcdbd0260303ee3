"""Figures of whole clusters by the models: the papers' old algorithms and their new one, at a profile's costs.

The new one is held against the fastest of the old at each size. Costs may be assumed, so each figure tells, too, what
comes out where one kind of cost is half or twice as large, and whether the conclusion stays.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from zerohop.interval import Interval
from zerohop.model_report import size
from zerohop.reproduce.describe import Figure
from zerohop.reproduce.judge import Finding, judge
from zerohop.reproduce.measure import Lab, Made, Panel

FACTORS = (0.5, 2.0)
KINDS = {"o": "overhead", "o_net": "network", "link": "link"}  # keys of a profile's levels
MEMORY = "memory"


def scaled(profile: dict, kind: str, factor: float) -> dict | None:
    """The profile with one kind of cost by the factor; None where it has no such cost."""
    out, found = copy.deepcopy(profile), False
    if kind == MEMORY:
        for row in out.get("contention", []):
            alone = row["us"][0][1]  # only what more readers add counts in a walk
            row["us"] = [[readers, alone + (us - alone) * factor] for readers, us in row["us"]]
            found = True
    for level in out["levels"].values():
        if KINDS.get(kind) in level:
            level[KINDS[kind]] = [[n, us * factor] for n, us in level[KINDS[kind]]]
            found = True
        if "link" in level:  # a message is on the link for a part of its network time at most
            network = dict(map(tuple, level["network"]))
            level["link"] = [[n, min(us, network.get(n, us))] for n, us in level["link"]]
    return out if found else None


class Row(NamedTuple):
    """Walks of one size, µs."""

    at: int
    old: dict[str, float]  # by algorithm
    new: float
    beyond: bool  # some step moves more than the profile's tables reach: its cost lies on a continued line

    @property
    def before(self) -> str:
        return min(self.old, key=self.old.__getitem__)

    @property
    def gain(self) -> float:
        return self.old[self.before] / self.new


def roots_of(figure: Figure, *, cyclic: bool) -> list[int]:
    """ "From any root": nodes are alike, so the places in one stand for all ranks."""
    a = figure.args
    if not a["any_root"]:
        return [0]
    return [place * a["nodes"] if cyclic else place for place in range(a["ranks"])]


def rows_of(lab: Lab, figure: Figure, profile: dict, roots: list[int], *, cyclic: bool) -> list[Row]:
    a, rows = figure.args, []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(profile, file)
        file.flush()
        where = ["--nodes", str(a["nodes"]), "-r", str(a["nodes"] * a["ranks"])]
        where += [*(["--cyclic"] if cyclic else []), "-p", file.name]
        for at, chunk in a["cases"]:
            us, beyond = {}, False
            for name in (*a["before"], a["after"]):
                words = [a["collective"], "-a", name, "-b", str(at), *where, "--no-steps", "--json"]
                words += ["-c", str(chunk), *(["--team"] if a["team"] else [])] if name == a["after"] else []
                walks = [json.loads(lab.run("schedule", *words, "--root", str(r)))["costs"] for r in roots]
                us[name] = sum(w["models"][-1]["walk_us"] for w in walks) / len(walks)  # mlog_nP with links
                beyond = beyond or any(w["beyond_tables"] for w in walks)
            rows.append(Row(at, us, us.pop(a["after"]), beyond))
    return rows


def finding(figure: Figure, rows: list[Row]) -> Finding:
    (claim,) = figure.claims
    slower = [f"{size(r.at)} ({r.gain:.2f})" for r in rows if r.gain < 1]
    best = max(rows, key=lambda r: r.gain)
    of_all = f"the best of {len(rows)} sizes, " if len(rows) > 1 else "at "
    what = f"{claim.new} by {best.before}, {of_all}{size(best.at)}"
    note = "beyond the profile's tables" if best.beyond else ""
    ours = Interval.computed(best.gain)
    return Finding(what, claim.paper, ours, everywhere=claim.everywhere, slower=slower, note=note)


def sensitivity(lab: Lab, figure: Figure, profile: dict) -> Iterator[str]:
    """A line for each kind of cost and factor, then whether the conclusion stays; root 0, ranks in blocks."""
    rows = rows_of(lab, figure, profile, [0], cyclic=False)
    base = judge(finding(figure, rows))
    stays = tried = 0
    for kind in (*KINDS, MEMORY):
        for factor in FACTORS:
            changed = scaled(profile, kind, factor)
            now = rows_of(lab, figure, changed, [0], cyclic=False) if changed else rows
            if now == rows:
                yield f"{kind}: changes no walk"
                break
            verdict = judge(finding(figure, now))
            same = (verdict.state, verdict.beyond) == (base.state, base.beyond)
            stays, tried = stays + same, tried + 1
            yield f"{kind} x {factor:g}: {verdict.state}, {verdict.because}"
    yield f'root 0, in blocks: "{base.state}" stays in {stays} of {tried} changes of one cost that change a walk'


def model(lab: Lab, figure: Figure) -> Made:
    made = Made()
    profile = json.loads(lab.run("tune", "--profile", lab.profile or figure.args["profile"]))
    made.notes.append(f"costs: {profile['name']}: {profile['about']}")
    for cyclic in (False, True) if figure.args["nodes"] > 1 else (False,):
        rows = rows_of(lab, figure, profile, roots_of(figure, cyclic=cyclic), cyclic=cyclic)
        how = "ranks in turn" if cyclic else "ranks in blocks"
        beyond = ", ".join(size(r.at) for r in rows if r.beyond)
        title = f"{figure.args['nodes']}x{figure.args['ranks']}, {how}"
        panel = Panel(title + (f"; beyond the profile's tables: {beyond}" if beyond else ""), "bytes", "µs")
        for name in figure.args["before"]:
            panel.series[name] = {r.at: Interval.computed(r.old[name]) for r in rows}
        panel.series[figure.args["after"]] = {r.at: Interval.computed(r.new) for r in rows}
        made.panels.append(panel)
        made.findings.append(finding(figure, rows))
        made.findings[-1].what += f", {how}"
    made.notes += list(sensitivity(lab, figure, profile))
    return made
