"""The command under test, and what its tests share: check_cli.py and check_doctor.py <zerohop> <cc>."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ZEROHOP = sys.argv[1]
CC = sys.argv[2]
# A stand-in for the preloaded library: says that it is there.
LIBRARY = (
    '#include <stdlib.h>\n__attribute__((constructor)) static void here(void) { setenv("PRELOADED", "yes", 1); }\n'
)


def copy_command(folder):
    """Both programs of the command into a folder; the path of the one that users call."""
    shutil.copy(Path(ZEROHOP).with_name("zerohop-tools"), folder)
    return shutil.copy(ZEROHOP, Path(folder) / "zerohop")


def zerohop(*args, command=ZEROHOP, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROHOP_", "LD_PRELOAD", "PMI", "OMPI"))}
    return subprocess.run([command, *args], env=clean | env, capture_output=True, text=True, timeout=60, check=False)


class Case(unittest.TestCase):
    """Tests with a folder of their own, the stand-in and a static program."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.lib = str(folder / "libstandin.so")
        (folder / "lib.c").write_text(LIBRARY)
        subprocess.run([CC, "-shared", "-fPIC", "-o", cls.lib, str(folder / "lib.c")], check=True)
        (folder / "main.c").write_text("int main(void) { return 5; }\n")
        cls.static = str(folder / "static")
        made = subprocess.run(
            [CC, "-static", "-o", cls.static, str(folder / "main.c")], capture_output=True, check=False
        )
        cls.has_static = made.returncode == 0

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def refused(self, cases, *command, quiet=True):
        """Each of `cases`, arguments and what is said of them, is refused; `quiet`: and nothing is printed."""
        for args, said in cases:
            r = zerohop(*command, *args)
            self.assertEqual(r.returncode, 2, args)
            self.assertIn(said, r.stderr, args)
            if quiet:
                self.assertEqual(r.stdout, "", args)

    def installed(self, *files):
        """The command alone in a folder with a blank in its name, with such files in its lib."""
        tree = Path(tempfile.mkdtemp(prefix="a b ", dir=self.folder.name))
        (tree / "bin").mkdir()
        (tree / "lib").mkdir()
        for name in files:
            shutil.copy(self.lib, tree / "lib" / name)
        return copy_command(tree / "bin")
