"""What a program's run says about each of its tests, and the readers of the programs' lines."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass
class Test:
    status: str  # ok | fail | skip
    why: str = ""


Results = dict[str, Test]

_LINE = re.compile(r"^(ok|FAIL|skip|run) ([A-Za-z_][\w.]*)(?:: (.*))?$")
_END = re.compile(r"^\d+ cases, \d+ failed$")


@dataclasses.dataclass
class Reading:
    results: Results
    running: str | None  # a case that began and did not report
    complete: bool  # the closing line was seen


def read_lines(output: str) -> Reading:
    """Reads `ok NAME`, `FAIL NAME: why`, `skip NAME: why`, `run NAME` and the closing line; a failure stays one."""
    results: Results = {}
    running, complete = None, False
    for line in output.splitlines():
        line = line.strip()
        complete = complete or bool(_END.match(line))
        match = _LINE.match(line)
        if not match:
            continue
        word, name, why = match[1], match[2], match[3] or ""
        if word == "run":
            running = name
            continue
        status = {"ok": "ok", "FAIL": "fail", "skip": "skip"}[word]
        if status == "fail" and name in results and results[name].status == "fail":
            continue
        if name not in results or status == "fail":
            results[name] = Test(status, why)
    if running in results and complete:
        running = None
    return Reading(results, running, complete)
