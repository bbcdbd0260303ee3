"""docs/results/reliability.md from the numbers that runs have added up."""

from __future__ import annotations

import dataclasses

from jobs import Case
from kills import FORK_WORLD, Row

HEAD = """# Reliability

<!-- Written by `tests/reliability/run.py --write`; it holds what runs on one machine have shown, added up. -->

What happens when a rank dies, when there is very much of something, and when a limit is in the way. One command does
all of it again and adds its counts to those below: `tests/reliability/run.py --write`. The programs are in
`tests/mpi/reliability/`; they check all data that they receive.
"""

KILLS = """## Ranks that are killed

A rank is ended by SIGKILL at a random moment of the traffic, with and without single copies by the kernel
(`ZEROHOP_CMA`) and memory that is shared on the way (`ZEROHOP_HEAP`), on 2 to 4 ranks. The others must be given the
host's error or be ended by the host's launcher, and nothing of the job may stay. Each job has a /dev/shm of its own,
so that what is left there is certainly its own.

- *told*: survivors that were given the host's error. Most launchers end them first; in the rows with errors returned
  the launcher was asked not to.
- *longest*: from the kill until no process of the job ran any more, on a machine with other work.
- *late*: jobs that had not ended by themselves within a minute, that ended as if nothing had happened, or that had
  wrong data.
- *stayed*: processes, and files of zerohop's.
"""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _kills(rows: list[Row]) -> str:
    head = ["where", "traffic", "kills", "survivors", "told", "longest, s", "late", "stayed", "host's files"]
    ordered = sorted(rows, key=lambda row: (row.where == FORK_WORLD, row.where, row.traffic))
    body = [
        [row.where, row.traffic, f"{row.kills:,}", f"{row.survivors:,}", f"{row.told:,}", f"{row.longest_s:.1f}",
         str(row.late), str(row.processes + row.files), str(row.host_files)]
        for row in ordered
    ]  # fmt: skip
    mpi = sum(row.kills for row in rows if row.where != FORK_WORLD)
    forked = sum(row.kills for row in rows if row.where == FORK_WORLD)
    text = KILLS + f"\n{mpi:,} kills of MPI jobs and {forked:,} of processes that use the engine without MPI:\n\n"
    text += _table(head, body)
    if not_begun := sum(row.not_begun for row in rows):
        text += f"\n{not_begun} jobs did not come to their kill.\n"
    return text


PARTS = {
    "stops": "## Ranks that are stopped\n\nTwo pairs of ranks exchange messages; one rank is stopped (SIGSTOP) and "
    "goes on (SIGCONT), again and again. The other pair must go on meanwhile, its partner must wait.\n",
    "many": "## Very many\n\nFour ranks. The note says how many there were, and what was measured.\n",
    "limits": "## Limits\n\nEach job has something real taken away, by namespaces, resource limits or a filter of "
    "system calls. It must run on\nwith the right data. Where everything stays with the MPI library, "
    "or single copies are lost, one line on stderr says so,\nelse there is none. A host that "
    "does not run there by itself is\nskipped.\n",
}


def page(rows: list[Row], cases: list[Case]) -> str:
    text = HEAD + "\n" + _kills(rows)
    for part, introduction in PARTS.items():
        wanted = [case for case in cases if case.part == part]
        if not wanted:
            continue
        body = [[case.name, case.host, case.status, case.note.replace("|", "/")] for case in wanted]
        text += f"\n{introduction}\n" + _table(["what", "host", "", "note"], body)
    return text


def as_json(rows: list[Row], cases: list[Case]) -> dict:
    return {"kills": [dataclasses.asdict(row) for row in rows], "cases": [dataclasses.asdict(case) for case in cases]}


def of_json(document: dict) -> tuple[list[Row], list[Case]]:
    return [Row(**row) for row in document.get("kills", [])], [Case(**case) for case in document.get("cases", [])]
