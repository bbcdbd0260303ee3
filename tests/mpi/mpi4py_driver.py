"""Runs test modules of mpi4py under unittest on every rank and writes what becomes of each test to one file per rank.

    mpiexec -n 2 python mpi4py_driver.py --tests <mpi4py>/test --out FOLDER [--after TEST] module...

Files: FOLDER/rank<r>.jsonl with {"event": start|end|done, ...}; FOLDER/order.json, the tests in their order.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import time
import unittest


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


class Recorder(unittest.TestResult):
    def __init__(self, file, timeout_s: float):
        super().__init__()
        self._file, self._timeout_s = file, timeout_s
        self._status, self._why = "ok", ""

    def _write(self, **entry):
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def startTest(self, test):
        super().startTest(test)
        self._status, self._why = "ok", ""
        self._began_s = time.monotonic()
        self._write(event="start", test=test.id())
        faulthandler.dump_traceback_later(self._timeout_s, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        seconds = round(time.monotonic() - self._began_s, 3)
        self._write(event="end", test=test.id(), status=self._status, why=self._why, seconds=seconds)
        super().stopTest(test)

    def _failed(self, error):
        text = self._exc_info_to_string(error, unittest.TestCase()).strip().splitlines()
        self._status, self._why = "fail", " | ".join(text[-3:])[:600]

    def addError(self, test, err):
        super().addError(test, err)
        if not isinstance(test, unittest.TestCase):  # setUpClass, setUpModule
            self._write(event="start", test=str(test))
            self._failed(err)
            self._write(event="end", test=str(test), status="fail", why=self._why)
            return
        self._failed(err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self._status == "ok":
            self._status, self._why = "skip", reason

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._status, self._why = "fail", "unexpected success"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--after", default="")
    parser.add_argument("--without", action="append", default=[], metavar="WORD", help="leave out such tests")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("modules", nargs="+")
    options = parser.parse_args()
    sys.path.insert(0, options.tests)
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    suite = unittest.TestSuite()
    for name in options.modules:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))
    tests = [t for t in flatten(suite) if not any(word in t.id() for word in options.without)]
    names = [test.id() for test in tests]
    if options.after in names:
        tests = tests[names.index(options.after) + 1 :]
    if rank == 0:
        with open(os.path.join(options.out, "order.json"), "w") as file:
            json.dump(names, file)
    with open(os.path.join(options.out, f"rank{rank}.jsonl"), "a") as file:
        result = Recorder(file, options.timeout)
        # The suite, not the single tests: class and module fixtures belong to it.
        unittest.TestSuite(tests).run(result)
        file.write(json.dumps({"event": "done"}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
