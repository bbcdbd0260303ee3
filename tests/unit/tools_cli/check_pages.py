"""Checks what the command tells of itself: version, completion, manual pages. Usage: check_pages.py <zerohop> <cc>"""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import fake_statistics
from cli import ZEROHOP, Case, zerohop


class Pages(Case):
    def test_version(self):
        self.assertRegex(
            zerohop("--version").stdout,
            r"^zerohop \d+\.\d+\.\d+\nbuilt by \S+ \d.*, with hwloc.*\nserves (MPICH|Open MPI|the MPI-5|nothing)",
        )

    def test_completion_of_bash(self):
        script = zerohop("completion", "bash").stdout + (
            'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zerohop; echo "${COMPREPLY[@]}"'
        )
        cases = (
            (["do"], "doctor"),
            (["bench", "p"], "p2p"),
            (["bench", "p2p", "--roun"], "--rounds"),
            (["bench", "p2p", "--abi", ""], "mpich ompi abi"),
            (["bench", "p2p", "--json", "x"], ""),  # a file
            (["run", "./app"], ""),
            (["run", "./app", "--"], ""),
            (["run", "--trace", "t.json", "-o", "CMA", "=", "0", "--rep"], "--report"),
            (["bench", "apps", "is", "--cl"], "--classes"),
            (["report", "--sv"], "--svg"),
            (["completion", ""], "bash zsh fish"),
        )
        for words, expected in cases:
            r = subprocess.run(["bash", "-c", script, "bash", ZEROHOP, *words], capture_output=True, text=True)
            self.assertEqual(r.stdout.strip(), expected, (words, r.stderr))
        self.refused([(["completion", "tcsh"], "tcsh")])

    def test_manual_pages_tell_each_command(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(zerohop("manual", folder).returncode, 0)
            pages = {page.name for page in Path(folder).iterdir()}
            self.assertLessEqual({"zerohop.1", "zerohop-run.1", "zerohop-bench-p2p.1"}, pages)
            self.assertIn("zerohop\\-run \\- Run a program with zerohop\n", Path(folder, "zerohop-run.1").read_text())
            for page in Path(folder).iterdir() if shutil.which("groff") else ():
                r = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-P-cbou", page], capture_output=True, text=True)
                self.assertEqual((r.stderr, [x for x in r.stdout.splitlines() if len(x) > 80]), ("", []), page.name)
            self.assertRegex(Path(folder, "zerohop-tune.1").read_text(), r"Needs \\-\\-json. Excludes \\-\\-machines\b")
            self.assertRegex(Path(folder, "zerohop-tune.1").read_text(), r"^\.TH ZEROHOP\\-TUNE 1 20\d\d-\d\d-\d\d ")
            text = Path(folder, "zerohop-bench-p2p.1").read_text()
            self.assertIn("\\fB\\-\\-rounds\\fR", text)
            self.assertIn("SEE ALSO", text)
            known = {"report": "svg", "bench-apps": "classes", "model-report": "points", "reproduce": "list"}
            for name, said in (known | {"python": "minutes"}).items():
                self.assertIn(f"\\-\\-{said}", Path(folder, f"zerohop-{name}.1").read_text())

    def test_programs_in_python_are_found_by_the_command_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "rows.json")
            rows.write_text('{"rows": [{"a": 1, "b": {"c": 2}}]}')
            self.assertEqual(zerohop("python", "csv", str(rows)).stdout.split(), ["a,b.c", "1,2"])
            rows.write_text('{"rows": []}')
            self.assertIn("0 met", zerohop("python", "limits", str(rows)).stdout)
            r = zerohop("python", "csv", "/no/such.json")
            self.assertEqual((r.returncode, r.stderr), (2, "zerohop: /no/such.json: No such file or directory\n"))
        self.assertIn("--minutes", zerohop("python", "by_placement", "--help").stdout)
        self.refused([(["by_placement", "--minutes", "nan"], "--minutes: invalid amount value")], "python")
        self.assertIn("zerohop python csv", zerohop("python", "--help").stdout)
        self.refused([([], "there are: by_placement csv"), (["plt"], "no program plt; did you mean plot?")], "python")

    def test_no_module_of_the_current_folder_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("select", "json", "argparse"):
                Path(folder, f"{name}.py").write_text("raise SystemExit('mine ran')")
            Path(folder, "zerohop").mkdir()
            Path(folder, "zerohop", "__init__.py").touch()
            for words in (["report", "--help"], ["python", "csv", "--help"], ["compare", "--help"]):
                r = subprocess.run([ZEROHOP, *words], cwd=folder, capture_output=True, text=True)
                self.assertEqual((r.returncode, r.stderr), (0, ""), words)

    def test_help_of_programs_in_python_has_80_columns(self):
        parts = ("report", "compare", "bench apps", "model report", "reproduce", "python", "python by_placement")
        for words in (*(f"{part} --help" for part in parts), "python plot --help", "reproduce --list"):
            r = zerohop(*words.split(), COLUMNS="0")
            self.assertEqual([line for line in r.stdout.splitlines() if len(line) > 80], [], words)
            self.assertGreater(r.stdout.count("\n"), 8, (words, r.stderr))

    def test_what_python_cannot_write_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder, Path("/dev/full").open("w") as full:
            Path(folder, "s.json").write_text(json.dumps(fake_statistics.document()))
            for words in ("report s.json", "report s.json --json", "compare s.json s.json", "reproduce --list",
                          "python --help", "python by_placement --minutes 0 --launches /dev/full", "report --help",
                          "bench apps --help", "model report --help", "python csv --help"):  # fmt: skip
                command = [ZEROHOP, *words.split()]
                r = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder)
                said = r.stderr.removeprefix("the time is up (0 minutes)\n")
                self.assertEqual((r.returncode, said.count("\n")), (1, 1), (words, r.stderr))
                self.assertIn("cannot write the output: No space left on device", said)


if __name__ == "__main__":
    unittest.main(argv=["check_pages"])
