"""What the scripts of tests/mpi share: which hosts are chosen, what is said of each test, and the closing line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import hosts


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="only this host (repeatable)")
    return parser


class Wrong(Exception):
    """What a job should not be, or leave."""


def expect(good: bool, what: object) -> None:
    if not good:
        raise Wrong(str(what))


class Tally:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def judge(self, name: str, wrong: str) -> None:
        """`wrong`: what is wrong, or nothing."""
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
        print(f"failed: {name}: {wrong}" if wrong else f"ok {name}", flush=True)

    def skip(self, name: str, why: str, tests: int = 1) -> None:
        self.skipped += tests
        print(f"skipped: {name}: {why}", flush=True)

    def close(self, *, all_skipped: bool = True) -> int:
        """Prints the closing line; gives the exit code. `all_skipped`: that nothing but this happened is no failure."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        done = self.passed + self.skipped if all_skipped else self.passed
        return 1 if self.failed or not done else 0


def run_cases(
    doc: str | None, zerohop, cases: tuple[Callable, ...], run: Callable, why_not: Callable[[Callable], str]
) -> int:
    """The main function of a script: run(case, host) for each case under each host; `why_not`: why one is skipped."""
    parser = parser_of(doc)
    parser.add_argument("--only", default="", metavar="NAME", help="only cases whose name contains this")
    arguments = parser.parse_args()
    if missing := zerohop.missing():
        raise SystemExit(f"not built: {missing} (make build)")
    tally = Tally()
    for name, host in chosen_hosts(arguments.host, tally):
        for case in cases:
            if arguments.only not in case.__name__:
                continue
            if why := why_not(case):
                tally.skip(f"{name} {case.__name__}", why)
                continue
            try:
                run(case, host)
                wrong = ""
            except Wrong as found:
                wrong = str(found)
            tally.judge(f"{name} {case.__name__}", wrong)
    return tally.close(all_skipped=False)


def chosen_hosts(wanted: list[str], tally: Tally) -> Iterator[tuple[str, object]]:
    for name in ("mpich", "openmpi", "impi"):
        if wanted and name not in wanted:
            continue
        try:
            yield name, hosts.host(name)
        except KeyError:
            tally.skip(name, "not installed (dev/setup)")
