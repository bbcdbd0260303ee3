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

    def close(self) -> int:
        """Prints the closing line; gives the exit code."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed + self.skipped else 0
