"""docs/results/reliability.md from the numbers that runs have added up."""

from __future__ import annotations

import dataclasses
import json
import re

from jobs import Case
from kills import FORK_WORLD, Row

HEAD = """# Reliability

<!-- Written by `tests/reliability/run.py --write`; it holds what runs on one machine have shown, added up. -->

What happens when a rank dies, when there is very much of something, and when a limit is in the way.
`tests/reliability/run.py --write` does all of it again and adds its counts to those below. All received data are
checked. Each kind of traffic by itself, and why a host was skipped: `tests/reliability/results.json`.
"""

KILLS = """## Ranks that are killed

SIGKILL ends a rank at a random moment of the traffic, with and without `ZEROHOP_CMA` and `ZEROHOP_HEAP`, on 2 to 4
ranks. The others must get the host's error or be ended by its launcher, and nothing of the job may stay.

- *told*: survivors that got the host's error. Most launchers end them first, unless asked to return errors.
- *longest*: from the kill until no process of the job ran any more, on a machine with other work.
- *late*: jobs that did not end by themselves within a minute, ended as if nothing had happened, or had wrong data.
- *stayed*: processes, and files of zerohop's.
"""

ERRORS_RETURNED = "errors returned"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _where(row: Row) -> str:
    return f"{row.where}, {ERRORS_RETURNED}" if ERRORS_RETURNED in row.traffic else row.where


def _kills(rows: list[Row]) -> str:
    head = ["where", "kills", "survivors", "told", "longest, s", "late", "stayed", "host's files"]
    body = []
    for where in sorted({_where(row) for row in rows}, key=lambda name: (name == FORK_WORLD, name)):
        those = [row for row in rows if _where(row) == where]
        counts = [sum(getattr(row, name) for row in those) for name in ("kills", "survivors", "told")]
        longest = f"{max(row.longest_s for row in those):.1f}"
        ends = [sum(row.late for row in those), sum(row.processes + row.files for row in those)]
        ends.append(sum(row.host_files for row in those))
        body.append([where, *(f"{n:,}" for n in counts), longest, *map(str, ends)])
    text = KILLS + "\n" + _table(head, body)
    if not_begun := sum(row.not_begun for row in rows):
        text += f"\n{not_begun} jobs did not come to their kill.\n"
    return text


PARTS = {
    "stops": "## Ranks that are stopped\n\nTwo pairs of ranks exchange messages; one rank is stopped (SIGSTOP) and "
    "goes on (SIGCONT), again and\nagain. The other pair must go on meanwhile.\n",
    "many": "## Very many\n\nFour ranks. The note says how many there were, and what was measured.\n",
    "limits": "## Limits\n\nNamespaces, resource limits or a filter of system calls take something away from a job. It "
    "must run on with the\nright data. One line on stderr says so where everything stays with the MPI library, or "
    "single copies are lost. A host\nthat does not run there by itself is skipped.\n",
}


def _note(cases: list[Case]) -> str:
    """What the notes of one case say, once where hosts agree; a skipped one's is left to the file of results."""
    said: dict[str, dict[str, list[str]]] = {}  # by label: hosts by value
    for case in (case for case in cases if case.status != "skipped" and case.note):
        for part in re.sub('says ".*"', "says so", case.note).replace("|", "/").split("; "):
            label, colon, value = part.rpartition(": ")
            said.setdefault(label + colon, {}).setdefault(value, []).append(case.host)
    ran = sum(case.status != "skipped" for case in cases)
    texts = []
    for label, values in said.items():
        alike = len(values) == 1 and len(next(iter(values.values()))) == ran
        told = values if alike else [f"{value} ({', '.join(hosts)})" for value, hosts in values.items()]
        texts.append(label + ", ".join(told))
    return "; ".join(texts)


def _cases(cases: list[Case]) -> str:
    hosts = sorted({case.host for case in cases})
    body = []
    for name in dict.fromkeys(case.name for case in cases):
        those = sorted((case for case in cases if case.name == name), key=lambda case: case.host)
        status = {case.host: case.status for case in those}
        body.append([name, *(status.get(host, "") for host in hosts), _note(those)])
    return _table(["what", *hosts, "note"], body)


def page(rows: list[Row], cases: list[Case]) -> str:
    text = HEAD + "\n" + _kills(rows)
    for part, introduction in PARTS.items():
        wanted = [case for case in cases if case.part == part]
        if wanted:
            text += f"\n{introduction}\n" + _cases(wanted)
    return text


def as_json(rows: list[Row], cases: list[Case]) -> str:
    """One result a line: a change of it is one line, too."""
    lists = []
    for name, results in ("kills", rows), ("cases", cases):
        lines = ",\n".join(json.dumps(dataclasses.asdict(result)) for result in results)
        lists.append(f'"{name}": [\n{lines}\n]')
    return "{" + ",\n".join(lists) + "}\n"


def of_json(document: dict) -> tuple[list[Row], list[Case]]:
    return [Row(**row) for row in document.get("kills", [])], [Case(**case) for case in document.get("cases", [])]
