"""Measured figures: the command lines of `zerohop bench`, and the series and findings of what it wrote."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from zerohop.interval import Interval
from zerohop.model_report import size
from zerohop.reproduce.describe import HOST, LEVELS, Bench, Claim, Figure
from zerohop.reproduce.judge import LEAST_LAUNCHES, Finding

# What an older build says before it starts anything; a program that it started says what it likes.
UNKNOWN = re.compile(r"zerohop[\w ]*: (--\w+: unknown variable |there is no command |not expected: )")
END_S = 10.0  # for a command to end what it started
WINDOW_MESSAGES = 64  # of the benchmark of skew: c3 grows by so many times c2 where each message waits
LEVEL_NAMES = {
    "cache": ("shared-l2", "shared-l3"),
    "socket": ("same-numa", "same-socket"),
    "sockets": ("other-socket",),
}


class Unavailable(Exception):
    """Why a figure cannot be had on this machine or by this build."""


class Broken(Exception):
    """Something that was started failed."""


@dataclass
class Panel:
    """What shares a pair of axes: series by name, each a value by x."""

    title: str
    x: str
    y: str
    series: dict[str, dict[float, Interval]] = field(default_factory=dict)

    def json(self) -> dict:
        series = {n: [[x, vars(i)] for x, i in sorted(points.items())] for n, points in self.series.items()}
        return {"title": self.title, "x": self.x, "y": self.y, "series": series}


@dataclass
class Made:
    """What a maker brings of a figure."""

    panels: list[Panel] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    svg: str = ""  # a drawing


@dataclass
class Lab:
    """The command, how long it may measure, and where it does."""

    zerohop: str
    quick: bool = False
    host: str = "openmpi"
    where: tuple[str, ...] = ()  # more options of `zerohop bench`: --mpiexec, --programs ...
    profile: str = ""  # of simulated figures; "": each its own

    def __post_init__(self) -> None:
        self.schedule = functools.cache(self._schedule)
        self.measured = functools.cache(self.json_of)  # figures of one machine that the papers have twice
        self.repeated = functools.cache(self._repeated)

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 6

    @property
    def under(self) -> list[str]:
        """Where a command starts its jobs."""
        return [*self.where, *([] if "--mpiexec" in self.where else ["--under", self.host])]

    def run(self, *words: str, timeout_s: float = 1800) -> str:
        """What the command prints. Unavailable where it does not know a word or setting, Broken where it fails."""
        command = [self.zerohop, *words]
        env = {k: v for k, v in os.environ.items() if not k.startswith("ZEROHOP_") and k != "LD_PRELOAD"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as job:
            try:
                out, error = job.communicate(timeout=timeout_s)
            except BaseException as why:
                job.terminate()  # it ends its jobs; ended itself, it could not
                with contextlib.suppress(subprocess.TimeoutExpired):
                    job.communicate(timeout=END_S)
                job.kill()
                if isinstance(why, subprocess.TimeoutExpired):
                    raise Broken(f"{shlex.join(command)}: ended after {timeout_s:.0f} s") from why
                raise
        if job.returncode == 0:
            return out
        said = [line for line in error.splitlines() if line.strip()] or [""]
        if job.returncode == 2 and UNKNOWN.match(said[0]):
            raise Unavailable(f"not in this build: {said[0]}")
        if job.returncode == 2 and said[-1].endswith(": nothing to run"):
            raise Unavailable(" ".join(said))
        raise Broken(f"{shlex.join(command)}: exit code {job.returncode}: {' | '.join(said[-3:])}")

    def json_of(self, *words: str) -> dict:
        """The document that --json of a command writes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.run(*words, "--json", str(path))
            return json.loads(path.read_text())

    def _repeated(self, *words: str) -> list[dict]:
        """The documents of as many runs as there are rounds; each may fail once, as machines change under it."""
        out = []
        for _ in range(self.rounds):
            try:
                out.append(self.json_of(*words))
            except Broken:
                out.append(self.json_of(*words))
        return out

    def _schedule(self, *words: str) -> str:
        """What every rank does, as one text. The order in which the team of one node reads is its name's alone."""
        out = json.loads(self.run("schedule", *words, "--json"))
        by_name = out["team"] and len(set(out["node_of_rank"])) == 1
        return json.dumps([out["ranks"], out["algorithm"] if by_name else ""])

    def drawing(self, *words: str) -> str:
        """A schedule as `zerohop schedule --svg` draws it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "drawn.svg"
            self.run("schedule", *words, "--no-steps", "--svg", str(path))
            return path.read_text()

    @functools.cached_property
    def pairs(self) -> list[dict]:
        """A pair of processors at each distance that this machine has, nearest first."""
        return self.json_of("bench", "raw", "--lines")["distances"]


def pair_of(lab: Lab, level: str) -> str:
    for pair in lab.pairs:
        if pair["level"] in LEVEL_NAMES[level]:
            return ",".join(str(cpu) for cpu in pair["cpus"])
    known = ", ".join(p["level"] for p in lab.pairs) or "none"
    raise Unavailable(f"no two processors of this machine are at this distance ({LEVELS[level]}); there are: {known}")


def bench_words(lab: Lab, bench: Bench, under: str = "") -> list[str]:
    """The arguments of `zerohop`, but --json."""
    out = ["bench", *bench.words, *(replace(lab, host=under) if under else lab).under]
    out += ["--rounds", str(lab.rounds), "--blocks", "3", "--block-us", "1000", "--case-s", f"{bench.case_s:g}"]
    out += ["--raw", "off"] if bench.words[0] == "p2p" else []
    out += ["--sizes", bench.sizes] if bench.sizes else []
    out += ["--layout", ",".join(bench.layouts)] if bench.layouts else []
    out += ["--processors", pair_of(lab, bench.pair)] if bench.pair else []
    for arm in bench.arms:
        out += ["--arm", arm.word()]
    return out


# ---- series whose schedules are one


def algorithm_of(options: str) -> tuple[str, str, str] | None:
    """Collective, algorithm and chunk of an arm; None where it names no algorithm."""
    values = dict(part.split("=", 1) for part in options.split(",") if part)
    if ":" not in values.get("ZEROHOP_ALGORITHM", ""):
        return None
    return (*values["ZEROHOP_ALGORITHM"].split(":", 1), values.get("chunk", "64K"))


def steps_of(lab: Lab, bench: Bench, options: str) -> list[str] | None:
    """What an arm's schedules are, for each layout and size."""
    named = algorithm_of(options)
    if named is None:
        return None
    collective, name, chunk = named
    out = []
    for layout in bench.layouts or ("1x8",):
        nodes, _, ranks = layout.removesuffix(":turn").partition("x")
        words = [
            "--nodes",
            nodes,
            "-r",
            str(int(nodes) * int(ranks)),
            *(["--cyclic"] if layout.endswith(":turn") else []),
        ]
        for at in bench.sizes.split(","):
            out.append(lab.schedule(collective, "-a", name, "-b", at, "-c", chunk, "--as-jobs", *words))
    return out


def one_schedule(lab: Lab, bench: Bench) -> dict[int, list[set[str]]]:
    """By size, the arms that are one schedule there, in all layouts."""
    steps = {arm.name: s for arm in bench.arms if (s := steps_of(lab, bench, arm.options)) is not None}
    sizes = bench.sizes.split(",") if steps else []
    out = {}
    for i, word in enumerate(sizes):
        groups: dict[tuple, set[str]] = defaultdict(set)
        for name, all_ in steps.items():
            groups[tuple(all_[i :: len(sizes)])].add(name)
        out[bytes_of(word)] = [group for group in groups.values() if len(group) > 1]
    return out


def same_schedules(alike: dict[int, list[set[str]]]) -> list[tuple[str, str]]:
    """Arms that are one schedule at every size: what differs between them is noise."""
    pairs = [{(a, b) for g in groups for a in g for b in g if a < b} for groups in alike.values()]
    return sorted(set.intersection(*pairs)) if pairs else []


def bytes_of(word: str) -> int:
    return int(word.rstrip("KM")) << {"K": 10, "M": 20}.get(word[-1], 0)


# ---- what a document holds


def place_of(row: dict, *, of_pairs: bool) -> str:
    """Where it ran. How near the first two ranks are says something of messages alone."""
    if of_pairs and row["placement"] in ("near", "far"):
        return f"{row['bench']}, {row['ranks']} ranks, {row['placement']}"
    each = row["ranks"] // max(1, row["machines"])
    return f"{row['bench']}, {row['machines']}x{each}{' in turn' if row['in_turn'] else ''}"


def crowd(ranks: int, processors: int) -> str:
    """Told where ranks share processors, which those of the papers never did."""
    return f"{ranks} ranks on {processors} processors" if ranks > processors > 0 else ""


Launches = dict[str, dict[float, dict[int, float]]]


def no_launches() -> Launches:
    return defaultdict(lambda: defaultdict(dict))


@dataclass
class Table:
    """The launches of one panel: value and ratio to the host by series, x and round."""

    title: str
    value: Launches = field(default_factory=no_launches)
    to_host: Launches = field(default_factory=no_launches)
    alike: dict[int, list[set[str]]] = field(default_factory=dict)  # one_schedule()
    note: str = ""

    def launches(self) -> int:
        return min((len(r) for points in self.value.values() for r in points.values()), default=0)

    def gains(self, new: str, old: str) -> dict[float, dict[int, float]]:
        """Time of `old` by time of `new`, by x and round; each by the host's in its own launch, as machines drift."""
        out: dict[float, dict[int, float]] = {}
        for x, mine in self.to_host.get(new, {}).items():
            if any({new, old} <= group for group in self.alike.get(x, [])):
                continue
            other = dict.fromkeys(mine, 1.0) if old == HOST else self.to_host.get(old, {}).get(x, {})
            out[x] = {n: other[n] / r for n, r in mine.items() if r > 0 and other.get(n, 0) > 0}
        return {x: g for x, g in out.items() if g}


def tables_of(document: dict, bench: Bench) -> list[Table]:
    tables: dict[str, Table] = {}
    for row in document["rows"]:
        if row["metric"] != bench.metric or row["bench"] == "flat" or bench.variant not in ("", row["variant"]):
            continue
        more = [row["variant"], bench.metric if bench.metric == "comm_us" else ""]
        title = ", ".join(filter(None, [place_of(row, of_pairs=bench.words[0] == "p2p"), *more]))
        table = tables.setdefault(title, Table(title, note=crowd(row["ranks"], row.get("processors", 0))))
        name, x = row["series"] if row["zerohop"] else HOST, row["param" if bench.x == "param" else "bytes"]
        for launch in row["launches"]:
            table.value[name][x][launch["round"]] = launch["value"]
            if "to_host" in launch:
                table.to_host[name][x][launch["round"]] = launch["to_host"]
    return list(tables.values())


def panel_of(table: Table, bench: Bench) -> Panel:
    y = "MB/s" if bench.bandwidth else "µs"
    panel = Panel(table.title, {"bytes": "bytes", "param": "c2, µs" if "skew" in table.title else "order"}[bench.x], y)
    order = [HOST, *(arm.name for arm in bench.arms)]
    for name, points in sorted(table.value.items(), key=lambda item: order.index(item[0])):
        values = {x: [x / v if bench.bandwidth else v for v in by_round.values()] for x, by_round in points.items()}
        panel.series[name] = {x: i for x, v in values.items() if (i := Interval.of(v))}
    return panel


def slower_sizes(gains: dict[float, Interval]) -> list[str]:
    return [f"{size(x)} ({i.median:.2f})" for x, i in sorted(gains.items()) if i.valid and i.high < 1]


def best_other(table: Table, claim: Claim) -> str:
    """The series, but `new`, `old` and zerohop's own way, that is the fastest over all sizes."""

    def mean_log(name: str) -> float:
        return statistics.mean(math.log(statistics.median(r.values())) for r in table.to_host[name].values())

    others = [n for n in table.to_host if n not in (claim.new, claim.old, "hybrid")]
    return min(others, key=mean_log) if others else ""


def slopes(table: Table, name: str) -> list[float]:
    """Of each launch: growth of the value from the least to the greatest x, by WINDOW_MESSAGES times that of x."""
    points = table.value.get(name, {})
    if len(points) < 2:
        return []
    first, last = min(points), max(points)
    both = points[first].keys() & points[last].keys()
    return [(points[last][n] - points[first][n]) / (WINDOW_MESSAGES * (last - first)) for n in sorted(both)]


def finding_of(table: Table, claim: Claim) -> Finding:
    what = f"{table.title}: {claim.what}"
    if claim.kind == "slope":
        return Finding(what, claim.paper, Interval.of(slopes(table, claim.new)), is_gain=False)
    everywhere = claim.everywhere or (claim.paper[1] is None and not claim.at)
    old = best_other(table, claim) if claim.kind == "best" else claim.old
    by_round = table.gains(claim.new, old)
    gains = {x: Interval.of(list(g.values())) for x, g in by_round.items()}
    if not gains:
        return Finding(what, claim.paper, None, why=f"nothing tells {claim.new} and {old} apart")
    slower = slower_sizes({x: i for x, i in gains.items() if not everywhere or x in (claim.at or gains)})
    if claim.kind == "from":
        return overtaking(what, claim, gains)
    if claim.kind == "best":
        rounds = sorted(set.intersection(*(set(g) for g in by_round.values())))
        means = [math.exp(statistics.mean(math.log(g[n]) for g in by_round.values())) for n in rounds]
        return Finding(f"{what} ({old})", claim.paper, Interval.of(means), slower=slower)
    at = [x for x in claim.at if x in gains] or ([] if claim.at else [max(gains, key=lambda x: gains[x].median)])
    if not at:
        return Finding(what, claim.paper, None, why="its size was not measured")
    best = f"the best of {len(gains)} sizes, " if len(gains) > 1 and not claim.at else "at "
    name = what if " at " in claim.what else f"{what}, {best}{size(at[0])}"
    return Finding(name, claim.paper, gains[at[0]], everywhere=everywhere, slower=slower)


def overtaking(what: str, claim: Claim, gains: dict[float, Interval]) -> Finding:
    """The least size from which on the new way is faster; within a factor of two of the paper's is the same. Sizes that
    may be faster or not make an interval of it."""
    how = {"is_gain": False, "factor": 2.0}
    count = min(i.count for i in gains.values())
    valid = all(i.valid for i in gains.values())

    def least(faster: Callable[[Interval], bool]) -> float | None:
        return next((x for x in sorted(gains) if all(faster(i) for y, i in gains.items() if y >= x)), None)

    surely, maybe = least(lambda i: i.low > 1), least(lambda i: i.high >= 1)
    if surely is None or maybe is None:
        why = f"at no size up to {size(max(gains))} is it faster from there on"
        never = any(i.valid and i.high < 1 for x, i in gains.items() if x > 2 * claim.paper[0])
        return Finding(what, claim.paper, None, why=why, never=never, **how)
    return Finding(f"{what} (bytes)", claim.paper, Interval(surely, maybe, surely, count, valid), **how)


def by_reuse(tables: list[Table], claim: Claim) -> Iterator[Table]:
    """Gains of the ping-pong with one buffer by those of the one with many, as `claim.new`'s over the host."""
    titles = {t.title: t for t in tables}
    for table in tables:
        other = titles.get(table.title.replace("latency", "noreuse"), table)
        if other is not table:
            many = other.gains(claim.new, claim.old)
            out = Table(table.title, note=table.note)
            for x, one in table.gains(claim.new, claim.old).items():
                out.to_host[claim.new][x] = {n: many[x][n] / g for n, g in one.items() if n in many.get(x, {})}
            yield out


def bench_figure(lab: Lab, figure: Figure) -> Made:
    made = Made()
    for bench in figure.bench:
        alike = one_schedule(lab, bench)
        if same := same_schedules(alike):
            pairs = "; ".join(f"{a} and {b}" for a, b in same)
            raise Broken(
                f"{figure.id}: these series are one schedule at every size, and differ by noise alone: {pairs}"
            )
        words = bench_words(lab, bench, figure.under)
        made.commands += [words] if words not in made.commands else []
        document = lab.measured(*words)
        tables = tables_of(document, bench)
        for table in tables:
            table.alike = alike
        made.panels += [panel_of(t, bench) for t in tables]
        made.findings += list(findings_of(tables, figure.claims))
        made.notes += [n for n in busy_notes(document) if n not in made.notes]
        made.notes += [f"one schedule at {size(x)}, which counts for nothing: {', '.join(sorted(group))}"
                       for x, groups in alike.items() for group in groups]  # fmt: skip
    return made


def findings_of(tables: list[Table], claims: Iterable[Claim]) -> Iterator[Finding]:
    """Of all panels; where the processors were near in some launches and far in others, of those with enough."""
    enough = [t for t in tables if t.launches() >= LEAST_LAUNCHES]
    tables = enough or tables
    for claim in claims:
        mine = tables
        if claim.kind == "reuse":
            mine, claim = list(by_reuse(tables, claim)), replace(claim, kind="gain", old=HOST)
        for table in (t for t in mine if claim.where in t.title):
            for at in claim.at or (None,):
                finding = finding_of(table, replace(claim, at=() if at is None else (at,)))
                finding.note = table.note
                yield finding


def busy_notes(document: dict) -> list[str]:
    machine = document.get("machine", {})
    if not machine.get("busy"):
        return []
    return [f"other programs used {machine.get('others_during', 0):.1f} of {machine.get('processors', 0)} processors"]
