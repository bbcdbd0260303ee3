"""Checks `zerohop tune` as users call it: what is kept, and what is said of it. Usage: check_tune.py <zerohop> <cc>"""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from cli import ZEROHOP, Case, zerohop
from fake_mpi import FakeMpi

TWO_PROCESSORS = len(os.sched_getaffinity(0)) >= 2


class Tune(Case):
    def test_tune_without_a_folder(self):
        for args, home in (([], ""), (["--renew"], ""), (["--renew"], "/nohome")):
            r = zerohop("tune", *args, HOME=home, XDG_CACHE_HOME="", ZEROHOP_CACHE="")
            self.assertEqual(r.returncode, 1)
            self.assertIn("set HOME", r.stderr)

    def test_tune_says_what_is_kept_and_forgets_it(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no calibration kept", zerohop("tune", ZEROHOP_CACHE=folder).stdout)
            path = Path(json.loads(zerohop("info", "--json", ZEROHOP_CACHE=folder).stdout)["calibration"]["path"])
            path.write_text("[]")
            self.assertIn("corrupt (no JSON object)", zerohop("tune", ZEROHOP_CACHE=folder).stdout)
            for said in ("Forgotten", "Nothing was kept"):
                r = zerohop("tune", "--renew", ZEROHOP_CACHE=folder)
                self.assertEqual((r.returncode, path.exists()), (0, False))
                self.assertIn(said, r.stdout)
            path.mkdir()
            (path / "something").touch()
            r = zerohop("tune", "--renew", ZEROHOP_CACHE=folder)
            self.assertEqual(r.returncode, 1)
            self.assertIn("cannot remove", r.stderr)

    def test_what_the_user_lacks_is_read_from_the_sites_folder(self):
        with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as site:
            folders = {"ZEROHOP_CACHE": own, "ZEROHOP_CONFIG": f"site={site}"}

            def in_force():
                return Path(json.loads(zerohop("info", "--json", **folders).stdout)["calibration"]["path"])

            name = in_force().name
            self.assertEqual(in_force().parent, Path(own), "where jobs will keep it")
            (Path(site) / name).write_text("{")
            self.assertEqual(in_force(), Path(site) / name)
            lines = zerohop("tune", **folders).stdout.splitlines()
            self.assertIn(f"{site}/{name}: the calibration file is corrupt", " ".join(map(str.strip, lines)))
            self.assertLessEqual(max(map(len, lines)), 80)
            (Path(own) / name).write_text("{")
            self.assertEqual(in_force(), Path(own) / name)
            r = zerohop("tune", "--renew", **folders)
            self.assertIn(f"Forgotten: {own}/{name}\nThe site's is in force: {site}/{name}", r.stdout)
            self.assertTrue((Path(site) / name).exists(), "an administrator's")

    def test_a_named_profile_is_told_beside_what_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, said in (("builtin", True), ("auto", False)):
                env = {"ZEROHOP_CACHE": folder, "ZEROHOP_PROFILE": name}
                self.assertEqual("ZEROHOP_PROFILE=builtin: jobs use nothing" in zerohop("tune", **env).stdout, said)
                self.assertEqual("not used: ZEROHOP_PROFILE" in zerohop("info", **env).stdout, said)
                self.assertEqual(json.loads(zerohop("info", "--json", **env).stdout)["calibration"]["used"], not said)

    def test_what_cannot_be_asked_is_refused(self):
        cases = (
            (["--machines", "2"], "--json"),
            (["--json", "x.json", "--machines", "3"], "one for each rank"),
            (["--json", "x.json", "--machines", "2", "--pretend-nodes"], "excludes"),
            (["--json", "x.json", "--between", "no-such-launcher -n"], "no program that can be run"),
            (["--model", "", "--save"], "--model: names nothing"),
            *(([name, "ompi"], f"{name} requires --json") for name in ("--under", "--abi")),
        )
        self.refused(cases, "tune")


class Measure(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = Path(name.name)
        self.mpi = FakeMpi(self.folder, ZEROHOP)
        self.mpi.place("f")

    def measure(self, *args):
        """The command's end, and the profile; nothing instead of one where other programs disturb."""
        out = self.folder / "here.json"
        out.unlink(missing_ok=True)
        words = ("tune", "--json", str(out), *self.mpi.host, *args)
        r = self.mpi.run(*words, timeout=100, ZEROHOP_CACHE=str(self.folder))
        if "The machine was busy" in r.stderr:
            self.assertEqual((r.returncode, out.exists()), (1, False))
            return r, None
        return r, json.loads(out.read_text()) if out.exists() else None

    def test_a_distance_needs_two_processors(self):
        allowed = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, [min(allowed)])
        r, profile = self.measure()
        self.assertEqual((r.returncode, profile), (2, None))
        self.assertIn("two processors are needed, and this process may use", r.stderr)

    @unittest.skipUnless(TWO_PROCESSORS, "one processor")
    def test_every_distance_and_cache_is_in_the_profile(self):
        r, profile = self.measure("--rounds", "6")
        self.assertIn("caches, as one process may use them", r.stdout, r.stderr)
        if profile is None:
            return
        self.assertEqual(r.returncode, 0, r.stderr)
        stands_for = {m.get("stands_for"): m for m in profile["measured_levels"]}
        self.assertEqual(len(stands_for["intra-cmp"]["processors"]), 2)
        self.assertEqual((stands_for["intra-cmp"]["launches"], stands_for["intra-cmp"].get("noisy")), (6, None))
        self.assertEqual(profile["levels"]["intra-cmp"]["overhead"], [[4096, 1.0]])
        self.assertTrue(profile["caches"])
        shown = zerohop("tune", "--profile", str(self.folder / "here.json"))
        self.assertEqual(json.loads(shown.stdout), profile, shown.stderr)

    @unittest.skipUnless(TWO_PROCESSORS, "one processor")
    def test_ranks_that_are_elsewhere_are_not_measured(self):
        self.mpi.place("b")
        r, profile = self.measure("--rounds", "1")
        self.assertEqual((r.returncode, profile), (1, None))
        self.assertIn("no launch kept its ranks on the processors", r.stderr)

    @unittest.skipUnless(TWO_PROCESSORS, "one processor")
    def test_between_nodes_by_a_launcher(self):
        apart = ("--between", f"{self.folder / 'mpiexec'} apart")
        r, profile = self.measure("--rounds", "6", *apart)
        self.assertIn("between nodes: nodes of `", r.stdout, r.stderr)
        if profile is not None:
            between = profile["levels"]["inter-node"]
            self.assertEqual((between["overhead"], between["network"], between["gap"]),
                             ([[4096, 3.0]], [[4096, 14.0]], [[4096, 5.0]]))  # fmt: skip
            self.assertNotIn("link", between)
            self.assertEqual(profile["measured_levels"][-1]["level"], "other-node")
        r, profile = self.measure("--rounds", "6", *apart, "--link")
        self.assertIn("two pairs between nodes", r.stdout, r.stderr)
        if profile is not None:
            self.assertEqual(profile["levels"]["inter-node"]["link"], [[4096, 2.0]])
        r, profile = self.measure("--rounds", "1", "--between", str(self.folder / "mpiexec"))
        self.assertEqual((r.returncode, profile), (1, None))
        self.assertIn("lay on one node", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
