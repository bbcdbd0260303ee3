"""Checks that no file is written over but zerohop's own. Usage: check_files.py <zerohop> <cc>"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fake_statistics
from cli import ZEROHOP, Case, zerohop

HAS_PAGES = all(importlib.util.find_spec(name) for name in ("plotly", "jinja2"))
TIMELINE = '{"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":0,"name":"zerohop","args":{}}\n]}\n'
PAGE = '<!doctype html>\n<html><head><meta name="generator" content="zerohop report"></head></html>\n'
NOTES = "1 2 3, measured by hand\n"


class Files(Case):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.at = Path(holder.name)
        self.app = self.at / "app"
        self.app.write_text('#!/bin/sh\ntouch "$0.has run"\n')
        self.app.chmod(0o755)

    def run_(self, *words, **env):
        """The exit code, what was said, and whether the program has run."""
        ran = self.at / "app.has run"
        ran.unlink(missing_ok=True)
        r = zerohop("run", "--library", self.lib, *map(str, words), str(self.app), **env)
        return r.returncode, r.stderr, ran.exists()

    def stays(self, path, *words, **env):
        before = path.read_bytes()
        code, said, ran = self.run_(*words, **env)
        self.assertEqual((code, ran, said.count("\n")), (2, False, 1), (words, said))
        self.assertEqual(path.read_bytes(), before, words)
        self.assertIn(f"would replace {path}", said)
        self.assertRegex(said, r"another name[.,]")

    def test_files_of_the_user_stay(self):
        for name in ("case.json", "case.html", "data.txt", "data.stats.json"):
            (self.at / name).write_text(NOTES)
        self.stays(self.at / "case.json", "--report", self.at / "case.htm")  # the statistics' place
        self.stays(self.at / "case.html", "--report", self.at / "case.html")
        self.stays(self.at / "data.txt", "--trace", self.at / "data.txt")
        self.stays(self.at / "data.stats.json", "--trace", self.at / "data.json")
        self.stays(self.at / "data.txt", "-o", f"trace={self.at}/data.txt", "-o", "STATS=s-%r.json")
        self.stays(self.at / "data.txt", ZEROHOP_STATS=str(self.at / "data.txt"))

    def test_the_program_stays(self):
        for words in (("--report", self.app), ("--trace", self.app), ("-o", f"STATS={self.at}/../{self.at.name}/app")):
            code, said, ran = self.run_(*words)
            self.assertEqual((code, ran), (2, False), words)
            self.assertIn(", the program. Give", said)
        self.assertIn("#!/bin/sh", self.app.read_text())

    def test_what_a_link_leads_to_stays(self):
        target = self.at / "data"
        target.write_text(NOTES)
        for words in (("--trace", self.at / "link"), ("--report", self.at / "link"), ("-o", f"STATS={self.at}/link")):
            (self.at / "link").unlink(missing_ok=True)
            (self.at / "link").symlink_to("data")
            self.stays(self.at / "link", *words)
        self.assertEqual(target.read_text(), NOTES)

    def test_files_of_zerohop_and_empty_ones_are_replaced(self):
        statistics = json.dumps(fake_statistics.document())
        written = (("t.json", TIMELINE), ("t.stats.json", statistics), ("p.html", PAGE), ("p.json", statistics))
        for texts in (dict(written), dict.fromkeys(dict(written), "")):
            for name, text in texts.items():
                (self.at / name).write_text(text)
            for words in (("--trace", self.at / "t.json"), ("--report", self.at / "p.html")):
                self.assertEqual(self.run_(*words)[::2], (0, True), words)
            for name, text in texts.items():
                self.assertEqual((self.at / name).read_text(), text, "an older job's stays until new ones come")

    def test_a_program_that_does_not_start_takes_no_file_away(self):
        self.app.write_text("#!/no/such/interpreter\n")
        (self.at / "t.json").write_text(TIMELINE)
        self.assertEqual(self.run_("--trace", self.at / "t.json")[::2], (127, False))
        self.assertEqual((self.at / "t.json").read_text(), TIMELINE)

    def test_a_trace_that_cannot_be_written_is_told(self):
        code, said, ran = self.run_("--trace", "/nodir/t.json")
        self.assertEqual((code, ran), (0, True))
        self.assertIn("there will be no --trace /nodir/t.json: no folder /nodir", said)
        code, said, ran = self.run_("--report", self.at / f"{'x' * 300}.html")
        self.assertEqual((code, ran), (0, True))
        self.assertIn("File name too long (give another file)", said)

    def test_one_file_is_not_two_things(self):
        (self.at / "t.json").touch()
        (self.at / "link.html").symlink_to("t.json")
        both = ("--report", self.at / "link.html", "--trace", self.at / "t.json")
        for words in (("--report", self.at / "p.json"), both, ("--report", "")):
            self.assertEqual(self.run_(*words)[::2], (2, False), words)

    def reported(self, *words):
        """Of a program that has ended: the exit code, and what was said; nobody reads it where there are no words."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        command = [ZEROHOP, "report", "s.json", f"--after={ended.pid}", "--output=p.html", *words]
        with subprocess.Popen(command, cwd=self.at, stderr=subprocess.PIPE, text=True) as report:
            if not words:
                report.stderr.close()
            return (report.stderr.read() if words else ""), report.wait()

    def test_the_page_is_of_this_job_and_made_though_nobody_reads(self):
        fake_statistics.write(self.at / "s.json")
        said, code = self.reported(f"--older={(self.at / 's.json').stat().st_mtime_ns}")
        self.assertEqual(code, 2)
        self.assertIn("the program left no statistics", said)
        self.reported()
        self.assertEqual((self.at / "p.html").exists(), HAS_PAGES)

    def test_a_report_replaces_no_page_of_the_user(self):
        fake_statistics.write(self.at / "s.json")
        (self.at / "s.html").write_text(NOTES)
        for _ in range(2 if HAS_PAGES else 0):  # the second time the page is its own
            r = subprocess.run([ZEROHOP, "report", "s.json"], cwd=self.at, capture_output=True, text=True)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn("s.html is no page of zerohop's", r.stderr)
            self.assertEqual((self.at / "s.html").read_text(), NOTES)
            r = subprocess.run([ZEROHOP, "report", "s.json", "-o", "own.html"], cwd=self.at, capture_output=True)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.run_("--report", self.at / "own.html")  # and the command knows it, too


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
