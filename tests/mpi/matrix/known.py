"""The checked list of tests that a host fails by itself (known_host_failures.toml)."""

from __future__ import annotations

import dataclasses
import fnmatch
from pathlib import Path

from machines.placement import Placement

from matrix.results import Results


@dataclasses.dataclass
class Entry:
    """Tests matching `test` in programs matching `program` fail under the hosts; `flaky` ones may also pass.

    `ranks` limits the entry to these numbers of ranks, `machines` to jobs on several machines; a case that `hangs` is
    run apart, with a short time limit.
    """

    host: list[str]
    test: str
    reason: str
    program: str = "*"
    ranks: list[int] = dataclasses.field(default_factory=list)
    machines: bool = False
    hangs: bool = False
    flaky: bool = False
    ran: bool = False
    failed: bool = False

    def covers(self, host: str, program: str, where: Placement) -> bool:
        right_ranks = not self.ranks or where.ranks in self.ranks
        right_place = right_ranks and (where.machines > 0 or not self.machines)
        return host in self.host and fnmatch.fnmatch(program, self.program) and right_place

    def __str__(self) -> str:
        return f"{','.join(self.host)} {self.program}/{self.test}"


class KnownFailures:
    def __init__(self, path: Path):
        try:
            import tomllib
        except ModuleNotFoundError:  # Python 3.10
            from pip._vendor import tomli as tomllib
        self._path = path
        text = path.read_text() if path.exists() else ""
        self.entries = [Entry(**table) for table in tomllib.loads(text).get("failure", [])]
        for entry in self.entries:
            if not entry.reason.strip():
                raise SystemExit(f"{path.name}: the entry {entry} has no reason")

    def entry_for(self, host: str, program: str, where: Placement, test: str) -> Entry | None:
        for entry in self.entries:
            if entry.covers(host, program, where) and fnmatch.fnmatch(test, entry.test):
                return entry
        return None

    def flaky(self, host: str, program: str, where: Placement, test: str) -> bool:
        """Whether the host fails this one now and then: its single baseline run says nothing."""
        entry = self.entry_for(host, program, where, test)
        return entry is not None and entry.flaky

    def hangs(self, host: str, program: str, where: Placement) -> tuple[str, ...]:
        return tuple(e.test for e in self.entries if e.hangs and e.covers(host, program, where))

    def unlisted(self, host: str, program: str, where: Placement, baseline: Results) -> list[str]:
        """Tests that the host alone fails without an entry; notes which entries were seen to fail."""
        found = []
        for name, test in baseline.items():
            if test.status == "skip":
                continue
            entry = self.entry_for(host, program, where, name)
            if entry:
                # A host may do on several machines what it fails on one; that makes no entry stale.
                entry.ran = entry.ran or entry.machines or not where.machines
                entry.failed = entry.failed or test.status == "fail"
            elif test.status == "fail":
                found.append(name)
        return found

    def stale(self) -> list[Entry]:
        """Entries that were run and never failed: they have to leave the list."""
        return [entry for entry in self.entries if entry.ran and not entry.failed and not entry.flaky]
