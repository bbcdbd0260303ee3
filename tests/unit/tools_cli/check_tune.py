"""Checks `zerohop tune` as users call it: what is kept, and what is said of it. Usage: check_tune.py <zerohop> <cc>"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

from cli import Case, zerohop


class Tune(Case):
    def test_tune_without_a_folder(self):
        for args in ([], ["--renew"]):
            r = zerohop("tune", *args, HOME="", XDG_CACHE_HOME="", ZEROHOP_CACHE="")
            self.assertEqual(r.returncode, 1)
            self.assertIn("set HOME", r.stderr)

    def test_tune_says_what_is_kept_and_forgets_it(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no calibration kept", zerohop("tune", ZEROHOP_CACHE=folder).stdout)
            path = Path(json.loads(zerohop("info", "--json", ZEROHOP_CACHE=folder).stdout)["calibration"]["path"])
            path.write_text("{")
            self.assertIn("corrupt", zerohop("tune", ZEROHOP_CACHE=folder).stdout)
            for said in ("Forgotten", "Nothing was kept"):
                r = zerohop("tune", "--renew", ZEROHOP_CACHE=folder)
                self.assertEqual((r.returncode, path.exists()), (0, False))
                self.assertIn(said, r.stdout)
            path.mkdir()
            (path / "something").touch()
            r = zerohop("tune", "--renew", ZEROHOP_CACHE=folder)
            self.assertEqual(r.returncode, 1)
            self.assertIn("cannot remove", r.stderr)

    def test_a_named_profile_is_told_beside_what_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, said in (("builtin", True), ("auto", False)):
                env = {"ZEROHOP_CACHE": folder, "ZEROHOP_PROFILE": name}
                self.assertEqual("ZEROHOP_PROFILE=builtin: jobs use nothing" in zerohop("tune", **env).stdout, said)
                self.assertEqual("not used: ZEROHOP_PROFILE" in zerohop("info", **env).stdout, said)
                self.assertEqual(json.loads(zerohop("info", "--json", **env).stdout)["calibration"]["used"], not said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
