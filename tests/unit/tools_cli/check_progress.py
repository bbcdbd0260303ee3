"""Checks what long commands tell while they run, on a terminal and elsewhere: check_progress.py <zerohop> <cc>"""

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from cli import ZEROHOP
from fake_mpi import FakeMpi
from zerohop import progress


class Commands(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder, self.mpi = Path(name.name), FakeMpi(name.name, ZEROHOP)
        self.mpi.place("n")

    def tells(self, command, last, *words, pipe=True):
        """The line is rewritten on a terminal, and gone at the end; elsewhere there is none in the first minute, and
        never in what is printed. `last`: said of the last step."""
        ours, theirs = pty.openpty()
        how = {"env": self.mpi.environment(ZEROHOP_CACHE=str(self.folder)), "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([ZEROHOP, *words], stderr=theirs, **how) as job:
            os.close(theirs)
            with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # EIO is the terminal's end
                sent = b""
                while part := terminal.read(4096):
                    sent += part
            out, sent = job.stdout.read(), sent.decode()
        self.assertIn(job.returncode, (0, 1), sent)  # 1: nothing is kept of a machine that others use
        shown = [line.split("\x1b[?7h")[0] for line in sent.split("\x1b[?7l")[1:]]
        self.assertTrue(shown[1:] and all(line.startswith(f"zerohop {command}: ") for line in shown), sent)
        self.assertRegex(shown[-1], last + ".*, about [0-9.]+ (s|min) left")
        if "round " in last:
            self.assertRegex(" ".join(shown[1:]), f"round 1/{last[-1]}.*, 2 of .*, about [0-9.]+ (s|min) left")
        self.assertTrue(all(line.startswith("\r\x1b[K") for line in sent.split("\x1b[?7h")[1:]), sent)
        r = self.mpi.run(*words, ZEROHOP_CACHE=str(self.folder)) if pipe else None
        self.assertNotIn("\x1b", out + (r.stdout + r.stderr if r else ""))
        self.assertNotIn(shown[0].split(", ")[0], r.stderr if r else "")

    def test_rounds_of_bench(self):
        words = ("bench", "p2p", "--only", "latency", "--rounds", "3", "--raw", "off", *self.mpi.host)
        self.tells("bench p2p", "round 3/3", *words)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_parts_of_tune(self):
        words = ("tune", "--json", str(self.folder / "here.json"), "--rounds", "2", *self.mpi.host)
        self.tells("tune", "round 2/2", *words, pipe=False)  # the same code as a benchmark's, and ten seconds

    def test_predictions_of_model_report(self):
        us = {"median": 20, "low": 18, "high": 22, "count": 8, "valid": True}
        row = {"collective": "bcast", "chunk_bytes": 0, "ranks": 8, "node_ranks": 4, "bytes": 4096, "slowest_us": us}
        rows, path = [row | {"algorithm": a} for a in ("linear", "binomial")], self.folder / "measured.json"
        path.write_text(json.dumps({"schema": "zerohop-bench-algorithms/1", "rows": rows}))
        self.tells("model report", "choices, 3 of 3", "model", "report", str(path), "-p", "gigabit-like")

    def test_figures_of_reproduce(self):
        where = ("--mpiexec", self.mpi.host[1], "--bench", " ".join(self.mpi.host[2:]), "--quick", "--fresh")
        words = ("reproduce", "limic-10", "limic-11", "--folder", str(self.folder / "kept"), *where)
        self.tells("reproduce", "limic-11, 2 of 2", *words)


class Steps(unittest.TestCase):
    def test_the_time_left_follows_what_the_steps_took(self):
        with contextlib.redirect_stderr(io.StringIO()), progress.Progress("x", 3, 4.0, each_s=60) as p:
            self.assertAlmostEqual(p.left_s(), 240, places=1)
            with p.step("a", 1.0):
                p.began -= 180  # it took three minutes instead of one
            with p.step("b", 2.0):
                self.assertIn("zerohop x: b, 2 of 3, about 9 min left", p.text())

    def test_a_line_a_minute(self):
        often = mock.patch.object(progress, "REWRITE_S", 0.01)
        with contextlib.redirect_stderr(io.StringIO()) as said, often, progress.Progress("x", 2) as p, p.step("a"):
            for lines in (1, 2):
                p.over.wait(0.1)
                p.next_line -= progress.LINE_S
                while said.getvalue().count("\n") < lines:
                    p.over.wait(0.01)
        self.assertEqual(said.getvalue(), 2 * "zerohop x: a, 1 of 2\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
