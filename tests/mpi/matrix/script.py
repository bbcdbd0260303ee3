"""What the scripts of tests/mpi share: which hosts are chosen, what is said of each test, and the closing line."""

from __future__ import annotations

import argparse


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="only this host (repeatable)")
    return parser


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
