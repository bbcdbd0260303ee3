"""What a figure, a claim and a benchmark are, and short ways to write them. The figures: messages.py, collectives.py.

Papers: hybrid: Chai, Lai, Jin, Panda, "Designing An Efficient Kernel-level and User-level Hybrid Approach for MPI
Intra-node Communication on Multi-core Systems", ICPP 2008. limic: Jin, Sur, Chai, Panda, "LiMIC", ICPP 2005. ml: Tu,
Fan, Zhan, Zhao, "Performance analysis and optimization of MPI collective operations on multi-core clusters", 2009. cc:
Mamidala, Kumar, De, Panda, "MPI Collectives on Modern Multicore Clusters", CCGrid 2008. The fifth document is the
abstract of the first. A gain is the time before by the time after: 24 % less time is a gain of 1/0.76.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

K, M = 1 << 10, 1 << 20
PAPERS = {
    "hybrid": "hybrid paper (ICPP 2008)",
    "limic": "LiMIC paper (ICPP 2005)",
    "ml": "mlog_nP paper (2009)",
    "cc": "multicore collectives paper (CCGrid 2008)",
}
RUN, SIMULATED, DRAWN, IMPOSSIBLE = "run", "simulated", "drawing", "impossible here"
HOST = "host"  # the series of the MPI library alone


@dataclass(frozen=True)
class Arm:
    """One way of zerohop: options as `zerohop bench --arm` takes them, none for its defaults."""

    name: str
    options: str = ""

    def word(self) -> str:
        return f"{self.name}:{self.options}" if self.options else self.name


@dataclass(frozen=True)
class Claim:
    """A finding of the paper that a number here can meet or miss.

    kind: `gain`, time of `old` by time of `new` where sizes are `at` (none: the best of all); `slope`, of `new` over x,
    in units of what a slope of 1 would be; `best`, gain of `new` over the best other series but `old`; `from`, the size
    from which on `new` is faster than `old`; `reuse`, the gain with buffers used again by that with others each time;
    `value`, what the figure's own code computes under the name `new`. paper: least and greatest that the paper tells;
    None: it tells the direction alone. everywhere: the paper has no size at which the new way is slower, which goes
    without saying where it tells the direction alone, and no size.
    """

    what: str
    paper: tuple[float, float | None]
    new: str = ""
    old: str = HOST
    at: tuple[int, ...] = ()
    kind: str = "gain"
    everywhere: bool = False
    where: str = ""  # the layout that the paper tells it of


@dataclass(frozen=True)
class Bench:
    """One `zerohop bench` whose series the figure has."""

    words: tuple[str, ...]
    arms: tuple[Arm, ...]
    layouts: tuple[str, ...] = ()
    sizes: str = ""
    x: str = "bytes"
    metric: str = "time_us"
    variant: str = ""  # of the benchmark's, the one that counts
    pair: str = ""  # level of the pair's distance, of LEVELS
    bandwidth: bool = False  # shown as MB/s
    case_s: float = 0.2


@dataclass(frozen=True)
class Figure:
    id: str
    number: str  # "figure 2 (a)"
    shows: str
    headline: str  # what the paper says of it
    kind: str
    here: str  # what is run, or why nothing can be
    bench: tuple[Bench, ...] = ()
    make: str = ""  # a maker of programs.py, misses.py or simulate.py, instead of `bench`
    args: dict = field(default_factory=dict)  # the maker's
    claims: tuple[Claim, ...] = ()
    minutes: float = 0.0
    under: str = ""  # the MPI library that the figure is of, instead of the one that was asked for
    draws: tuple[str, ...] = ()  # arguments of `zerohop schedule` for a drawing

    @property
    def paper(self) -> str:
        return self.id.split("-")[0]

    @property
    def source(self) -> str:
        return f"{PAPERS[self.paper]}, {self.number}"


def less(percent: float) -> float:
    """The gain of so much less time."""
    return 1 / (1 - percent / 100)


SHARED = Arm("shared memory alone", "heap=0,cma=0")
# As the papers have it: also for a receiver that stays away, whose messages no cells and no copy of the sender's carry.
KERNEL = Arm("kernel copy alone", "heap=0,single_copy=1,skew=0,keep_copies=0")
HYBRID = Arm("hybrid")
WAYS = (SHARED, KERNEL, HYBRID)
ITSELF = (HYBRID,)
# How near the two processors of a pair are, by what `zerohop bench raw --lines` says of a machine.
LEVELS = {"cache": "shared cache", "socket": "same socket, another cache", "sockets": "two sockets"}

P2P = ("p2p", "--buffers", "malloc")
BIG = "1K,4K,16K,64K,256K,1M"


def p2p(only: str, arms: tuple[Arm, ...] = WAYS, **more: object) -> tuple[Bench, ...]:
    return (replace(Bench((*P2P, "--only", only), arms), **more),)


def coll(only: str, arms: tuple[Arm, ...], layouts: str, sizes: str, *words: str) -> tuple[Bench, ...]:
    return (Bench(("coll", "--only", only, *words), arms, tuple(layouts.split()), sizes),)


def algorithm(collective: str, name: str, chunk: str = "", label: str = "") -> Arm:
    cut = f",chunk={chunk}" if chunk else ""
    return Arm(label or name, f"ZEROHOP_ALGORITHM={collective}:{name}{cut}")


def tiles(*sizes: str) -> tuple[Arm, ...]:
    return (
        algorithm("bcast", "hierarchical", "0", "whole"),
        *(algorithm("bcast", "hierarchical", s, f"tile {s}") for s in sizes),
    )


def drawing(id_: str, number: str, shows: str, here: str, draws: tuple[str, ...] = ()) -> Figure:
    return Figure(id_, number, shows, "a drawing: no number", DRAWN, here, draws=draws)


def impossible(id_: str, number: str, shows: str, headline: str, why: str) -> Figure:
    return Figure(id_, number, shows, headline, IMPOSSIBLE, why)


def run(id_: str, number: str, shows: str, headline: str, here: str, *claims: Claim, **how) -> Figure:
    minutes = how.pop("minutes", 0) or round(sum(seconds_of(b) for b in how["bench"]) / 60, 1)
    return Figure(id_, number, shows, headline, RUN, here, claims=claims, minutes=minutes, **how)


def seconds_of(bench: Bench) -> float:
    """A guess of how long its launches take on two processors: those of each arm in six rounds."""
    total = 0.0
    for layout in bench.layouts or ("1x2",):
        nodes, _, each = layout.removesuffix(":turn").partition("x")
        ranks = int(nodes) * int(each)
        a_launch = (6.0 if ranks > 4 else 3.0) if nodes != "1" else 1.2 if ranks == 2 else 2.0
        total += 6 * len(bench.arms) * a_launch
    return total
