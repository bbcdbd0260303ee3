"""Figures of whole clusters by the models: the papers' algorithms before and after, at a profile's costs.

A profile's costs may be assumed, so each figure tells, too, what comes out where one kind of cost is half or twice as
large, and whether the conclusion stays.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

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


def walk_us(lab: Lab, figure: Figure, profile: str, at: int, name: str, chunk: int, root: int, *, cyclic: bool,
            team: bool) -> float:  # fmt: skip
    a = figure.args
    words = ["-n", str(a["nodes"]), "-r", str(a["ranks"]), "-b", str(at), "-a", name, "-c", str(chunk)]
    words += ["--root", str(root), *(["--cyclic"] if cyclic else []), *(["--team"] if team else [])]
    out = lab.run("schedule", a["collective"], *words, "--profile", profile, "--no-steps", "--json")
    return json.loads(out)["costs"]["models"][-1]["walk_us"]  # mlog_nP with links


def roots_of(figure: Figure, *, cyclic: bool) -> list[int]:
    """ "From any root": nodes are alike, so the places in one stand for all ranks."""
    a = figure.args
    if not a["any_root"]:
        return [0]
    return [place * a["nodes"] if cyclic else place for place in range(a["ranks"])]


def times(lab: Lab, figure: Figure, profile: str, roots: list[int], *, cyclic: bool) -> Iterator[tuple]:
    """Size, time before, time after, in microseconds."""
    several = figure.args["nodes"] > 1
    for sizes, before, after, chunk in figure.args["cases"]:
        for at in sizes:

            def mean(name: str, cut: int, team: bool, at: int = at) -> float:
                all_ = [walk_us(lab, figure, profile, at, name, cut, r, cyclic=cyclic, team=team) for r in roots]
                return sum(all_) / len(all_)

            yield at, mean(before, 0, False), mean(after, chunk, several)


def finding(figure: Figure, rows: list[tuple]) -> Finding:
    (claim,) = figure.claims
    gains = {at: before / after for at, before, after in rows}
    slower = [f"{size(at)} ({g:.2f})" for at, g in sorted(gains.items()) if g < 1]
    best = max(gains, key=lambda at: gains[at])
    what = f"{claim.what}, at {size(best)}"
    ours = Interval.computed(gains[best])
    return Finding(what, claim.paper, ours, everywhere=claim.everywhere, exact=True, slower=slower)


def sensitivity(lab: Lab, figure: Figure, profile: dict, path: Callable[[dict], str]) -> Iterator[str]:
    """A line for each kind of cost and factor, then whether the conclusion stays; root 0, ranks in blocks."""
    base = judge(finding(figure, list(times(lab, figure, path(profile), [0], cyclic=False))))
    stays = tried = 0
    for kind in (*KINDS, MEMORY):
        for factor in FACTORS:
            changed = scaled(profile, kind, factor)
            if changed is None:
                yield f"{kind}: the profile has none"
                break
            verdict = judge(finding(figure, list(times(lab, figure, path(changed), [0], cyclic=False))))
            same = (verdict.state, verdict.beyond) == (base.state, base.beyond)
            stays, tried = stays + same, tried + 1
            yield f"{kind} x {factor:g}: {verdict.state}, {verdict.because}"
    yield f"the conclusion ({base.state}) stays in {stays} of {tried} changes of one cost"


def model(lab: Lab, figure: Figure) -> Made:
    made = Made()
    profile = json.loads(lab.run("tune", "--profile", lab.profile))
    made.notes.append(f"costs: {profile['name']}: {profile['about']}")
    with tempfile.TemporaryDirectory() as folder:

        def path(document: dict) -> str:
            file = Path(folder) / "profile.json"
            file.write_text(json.dumps(document))
            return str(file)

        for cyclic in (False, True) if figure.args["nodes"] > 1 else (False,):
            rows = list(times(lab, figure, path(profile), roots_of(figure, cyclic=cyclic), cyclic=cyclic))
            how = "ranks in turn" if cyclic else "ranks in blocks"
            panel = Panel(f"{figure.args['nodes']}x{figure.args['ranks']}, {how}", "bytes", "µs")
            for name, column in (("before", 1), ("after", 2)):
                panel.series[name] = {row[0]: Interval.computed(row[column]) for row in rows}
            made.panels.append(panel)
            made.findings.append(finding(figure, rows))
            made.findings[-1].what += f", {how}"
        made.notes += list(sensitivity(lab, figure, profile, path))
    return made
