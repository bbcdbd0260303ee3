"""The files of ZEROHOP_STATS: read, checked, joined to one job. Keys may be missing and values wrong in any of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from glob import glob

from zerohop.command_line import loads

SCHEMA = 1
MOST = 1 << 64  # counters are of 64 bits: what is larger is none
UNFINISHED = ("a rank died", "MPI_Abort", "running")  # what tells most, first


class Refused(Exception):
    """Why there is nothing to tell of: the file, what is wrong, what mends it."""


def count(tree: object, *path: str) -> float:
    """The number at the end of a path of keys; 0 where there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    is_number = isinstance(tree, (int, float)) and not isinstance(tree, bool)
    return tree if is_number and 0 <= tree < MOST else 0


def word(tree: object, *path: str) -> str:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, str) else ""


def part(tree: object, *path: str) -> dict:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def rows(tree: dict, key: str) -> list[dict]:
    found = tree.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


@dataclass
class Job:
    """`ranks`: by number in the world, as the file has them. `node` and `socket` by that number."""

    facts: dict
    ranks: dict[int, dict]
    node: dict[int, int] = field(default_factory=dict)
    socket: dict[int, int] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return word(self.facts, "end") in ("MPI_Finalize", "")

    @property
    def size(self) -> int:
        """Ranks in the world; those that told something may be fewer."""
        return max(int(count(self.facts, "world_size")), len(self.ranks))

    @property
    def seconds(self) -> float:
        """From the start to the latest writing, by dates of whole seconds; 0 where they are missing."""
        try:
            ends = [datetime.fromisoformat(word(self.facts, k).replace("Z", "+00:00")) for k in ("started", "written")]
            return max((ends[1] - ends[0]).total_seconds(), 0.0)
        except (ValueError, TypeError):
            return 0.0


def read(path: str) -> dict:
    """One document; Refused where it is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            document = loads(file.read())
    except OSError as why:
        raise Refused(f"{path}: {why.strerror}. Give the file that ZEROHOP_STATS named.") from why
    except ValueError as why:
        raise Refused(f"{path}: no JSON ({why}). Was it cut? Give the file that ZEROHOP_STATS named.") from why
    if not isinstance(document, dict) or not isinstance(document.get("ranks"), list):
        raise Refused(f"{path}: no statistics of zerohop: it has no `ranks`. Give the file that ZEROHOP_STATS named.")
    if document.get("schema") != SCHEMA:
        found = document.get("schema")
        raise Refused(f"{path}: schema {found}; this command reads {SCHEMA}. Use that of the zerohop that wrote it.")
    return document


def nodes_by_index(ranks: dict[int, dict]) -> dict[int, int]:
    """Nodes by what older files have: a rank's index on its node, and the node's ranks. The n-th rank of an index is on
    the n-th node of that size."""
    seen: dict[tuple, int] = {}
    numbers: dict[tuple, int] = {}
    found = {}
    for number, rank in sorted(ranks.items()):
        size, index = count(rank, "node_ranks"), count(rank, "node_index")
        nth = seen[size, index] = seen.get((size, index), -1) + 1
        found[number] = numbers.setdefault((size, nth), len(numbers))
    return found


def joined_facts(documents: list[dict]) -> dict:
    """Rank 0's facts, or the first file's; how the job ended by the file that tells most of it."""
    first = min(documents, key=lambda d: min((count(r, "rank") for r in rows(d, "ranks")), default=MOST))
    facts = {key: value for key, value in first.items() if key != "ranks"}
    for end in reversed(UNFINISHED):
        for document in documents:
            if word(document, "end") == end:
                facts |= {k: document[k] for k in ("end", "abort_rank", "abort_code", "dead_ranks") if k in document}
    for key, pick in (("started", min), ("written", max)):
        dates = [word(d, key) for d in documents if word(d, key)]
        facts |= {key: pick(dates)} if dates else {}
    return facts


def join(paths: list[str]) -> Job:
    """The job of these files or patterns of names, which each have some of its ranks."""
    found = [name for path in paths for name in sorted(glob(path)) or [path]]
    documents = [(path, read(path)) for path in dict.fromkeys(found)]
    home: dict[int, str] = {}
    ranks: dict[int, dict] = {}
    path_0, first = documents[0]
    for path, document in documents:
        for key in ("job", "world_size"):
            if document.get(key) != first.get(key):
                values = f"{key} {document.get(key)} and {first.get(key)}"
                raise Refused(f"{path} and {path_0} are of two jobs ({values}). `zerohop compare` takes two.")
        for place, rank in enumerate(rows(document, "ranks")):
            number = int(count(rank, "rank")) if "rank" in rank else place
            if number in ranks:
                raise Refused(f"{path} and {home[number]} both have rank {number}. Give the files of one run.")
            ranks[number], home[number] = rank, path
    job = Job(joined_facts([d for _, d in documents]), dict(sorted(ranks.items())))
    told = all("node" in rank for rank in job.ranks.values())
    job.node = {n: int(count(r, "node")) for n, r in job.ranks.items()} if told else nodes_by_index(job.ranks)
    job.socket = {n: int(count(r, "socket")) for n, r in job.ranks.items() if "socket" in r}
    return job
