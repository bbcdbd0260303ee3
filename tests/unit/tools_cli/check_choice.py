"""Checks `zerohop tune --model` and `zerohop info --collective` as users call them: the table that is kept, and which
algorithm is in force. Usage: check_choice.py <zerohop> <cc>"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

from cli import Case, zerohop

TOPOLOGY = "synthetic:core:4 l2:1(size=2097152) l1:1(size=32768) pu:1"


class Choice(Case):
    def kept(self, *args, topology=TOPOLOGY, **env):
        """The answer of `tune --model --save`, its lines without comments and the folder."""
        folder = tempfile.mkdtemp(dir=self.folder.name)
        env |= {"ZEROHOP_CACHE": folder, "ZEROHOP_CONFIG": f"topology={topology}"}
        r = zerohop("tune", "--model", *args, "--save", "--print-json", **env)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        (table,) = Path(folder).glob("collectives-model-*-ompi.txt")
        text = table.read_text().splitlines()
        return json.loads(r.stdout), [line for line in text if not line.startswith("#")], text, folder

    def test_choose_saves_a_table_with_tiles_of_this_machines_caches(self):
        out, lines, text, folder = self.kept("gigabit-like", "-r", "4,8", "--nodes", "2", "--for", "ompi")
        self.assertEqual(out["tiles"], {"small_bytes": 8 << 10, "large_bytes": 256 << 10})
        self.assertEqual([(t["ranks"], t["nodes"]) for t in out["tables"]], [(4, 1), (8, 1), (4, 2), (8, 2)])
        self.assertEqual(len(out["saved"]), 1)
        self.assertRegex(text[1], r"^# \d{4}-\d\d-\d\d, walks of mlog_nP\+links, profile gigabit-like")
        told = []
        for table in out["tables"]:
            kind = "several" if table["nodes"] > 1 else "one"
            for c in table["collectives"]:
                for e in c["entries"]:
                    chunk = "" if e["chunk_bytes"] is None else f" {e['chunk_bytes']}"
                    told.append(f"{c['collective']} {table['ranks']} {kind} {e['from_bytes']} {e['algorithm']}{chunk}")
        self.assertEqual(lines, told)
        self.assertIn(" 8192", "\n".join(lines))
        self.assertFalse(list(Path(folder).glob("*-mpich.*")), "for one interface alone")
        info = json.loads(zerohop("info", "--json", ZEROHOP_CACHE=folder).stdout)
        self.assertEqual(len(info["collectives_by_model"]["ompi"]["entries"]), len(lines))
        self.assertFalse(info["collectives"]["ompi"]["present"])

    def test_what_was_chosen_is_in_force(self):
        out, _, _, folder = self.kept("gigabit-like", "-r", "8", "--nodes", "2")
        self.assertEqual(len(out["saved"]), 3)
        entries = {c["collective"]: c["entries"] for c in out["tables"][1]["collectives"]}["allreduce"]
        for entry in entries:
            size = max(8, entry["from_bytes"])
            args = ("info", "--collective", "allreduce", "--size", str(size), "--ranks", "8", "--nodes", "2", "--json")
            r = zerohop(*args, ZEROHOP_CACHE=folder, ZEROHOP_CONFIG=f"topology={TOPOLOGY}")
            answer = json.loads(r.stdout)["under"]["ompi"]
            self.assertEqual((answer["source"], answer["algorithm"]), ("model", entry["algorithm"]))
            named = json.loads(zerohop(*args, ZEROHOP_CACHE=folder, ZEROHOP_ALGORITHM="allreduce:ring").stdout)
            self.assertEqual(named["under"]["ompi"]["source"], "variable")
        text = zerohop(*args[:-1], ZEROHOP_CACHE=folder).stdout
        self.assertIn("Under abi, mpich, ompi", text)
        self.assertIn("the table by a model", text)

    def test_choose_without_save_keeps_nothing(self):
        folder = tempfile.mkdtemp(dir=self.folder.name)
        r = zerohop("tune", "--model", "gigabit-like", "-r", "2", ZEROHOP_CACHE=folder)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("Nothing is kept: --save does that.", r.stdout)
        self.assertIn("2 ranks on one node", r.stdout)
        self.assertEqual(list(Path(folder).iterdir()), [])

    def test_choose_without_known_caches_leaves_chunks_alone(self):
        out, lines, _, _ = self.kept("gigabit-like", "-r", "4", topology="synthetic:core:4 pu:1")
        self.assertEqual({len(line.split()) for line in lines}, {5})
        self.assertIn("caches are not known", " ".join(out["notes"]))

    def test_the_fastest_takes_over_where_the_walks_say(self):
        args = ("--model", "gigabit-like", "-r", "16", "--nodes", "4", "--print-json")
        r = zerohop("tune", *args, ZEROHOP_CONFIG="topology=synthetic:core:4 pu:1")
        collectives = json.loads(r.stdout)["tables"][1]["collectives"]
        self.assertEqual(len(collectives), 11)
        (bcast,) = (c["entries"] for c in collectives if c["collective"] == "bcast")
        first, *later = bcast
        self.assertTrue(later, "a tree does not stay ahead of a ring")
        at = ("schedule", "bcast", "-r", "16", "--nodes", "4", "-b", str(later[0]["from_bytes"]), "-c", "64K", "--team")
        walks = []
        for entry in (first, later[0]):
            asked = (*at, "-a", entry["algorithm"], "-p", "gigabit-like", "--no-steps", "--json")
            walks.append(json.loads(zerohop(*asked).stdout)["costs"]["models"][3]["walk_us"])
        self.assertLess(walks[1], walks[0])
        self.assertAlmostEqual(walks[1], later[0]["us"])

    def test_choose_refuses(self):
        cases = (
            (("--save",), "--model"),
            (("--model", "/no/such.json"), "no profile /no/such.json"),
            (("--model", "gigabit-like", "-r", "6,9", "--nodes", "2"), "9 ranks do not go into 2 nodes alike"),
            (("--model", "gigabit-like", "-r", "1"), "--ranks"),
            (("--model", "gigabit-like", "--save", "--for", "lam"), "lam"),
            (("--model", "gigabit-like", "--renew"), "--renew"),
        )
        self.refused(cases, "tune", quiet=False)
        r = zerohop("tune", "--model", "gigabit-like", "-r", "2", "--save", ZEROHOP_CACHE="/dev/null/x")
        self.assertEqual(r.returncode, 2)
        self.assertIn("cannot write /dev/null/x/collectives-model-", r.stderr)

    def test_info_answers_which_algorithm_is_in_force(self):
        ask = ("info", "--collective", "allreduce", "--size", "1M", "-r", "4")
        self.assertIn("allreduce of 64 KiB, 6 ranks on one node", zerohop(*ask[:3], "--ranks", "6").stdout)
        folder = tempfile.mkdtemp(dir=self.folder.name)
        out = json.loads(zerohop(*ask, "--json", ZEROHOP_CACHE=folder).stdout)
        self.assertEqual((out["collective"], out["bytes"], out["ranks"], out["nodes"]), ("allreduce", 1 << 20, 4, 1))
        self.assertEqual(set(out["under"]), {"abi", "mpich", "ompi"})
        answer = out["under"]["ompi"]
        self.assertEqual((answer["source"], answer["blocking"], answer["chunk_bytes"]), ("default", "team", 65536))
        text = zerohop(*ask, ZEROHOP_CACHE=folder, ZEROHOP_ALGORITHM="allreduce:cyclic").stdout
        self.assertIn("shmem-cyclic", text)
        self.assertIn("a variable", text)
        self.assertIn("a team by staging areas", text)  # on one node: no messages
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertEqual(zerohop("info", "--collective", "barrier", ZEROHOP_CACHE=folder).returncode, 0)
        cases = (
            (("--collective", "all", "--size", "8"), "no collective 'all'"),
            (("--collective", "bcast", "--size", "8", "--ranks", "5", "--nodes", "2"), "a multiple of 2"),
            (("--size", "8"), "--collective"),
        )
        self.refused(cases, "info", quiet=False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
