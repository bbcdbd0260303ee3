"""Checks what the command tells of itself: version, completion, manual pages. Usage: check_pages.py <zerohop> <cc>"""

import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import Case, zerohop


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
            (["completion", ""], "bash zsh fish"),
        )
        for words, expected in cases:
            r = subprocess.run(["bash", "-c", script, "bash", "zerohop", *words], capture_output=True, text=True)
            self.assertEqual(r.stdout.strip(), expected, (words, r.stderr))
        self.refused([(["completion", "tcsh"], "tcsh")])

    def test_manual_pages_tell_each_command(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(zerohop("manual", folder).returncode, 0)
            pages = {page.name for page in Path(folder).iterdir()}
            self.assertLessEqual({"zerohop.1", "zerohop-run.1", "zerohop-bench-p2p.1"}, pages)
            text = Path(folder, "zerohop-bench-p2p.1").read_text()
            self.assertIn("\\fB\\-\\-rounds\\fR", text)
            self.assertIn("SEE ALSO", text)


if __name__ == "__main__":
    unittest.main(argv=["check_pages"])
