"""Checks `zerohop schedule` as users call it: steps, proofs, pictures. Usage: check_schedule.py <zerohop> <cc>"""

import json
import sys
import unittest
from pathlib import Path

from cli import Case, zerohop


class Schedule(Case):
    def test_schedule_is_proved_and_drawn(self):
        svg = str(Path(self.folder.name) / "ring.svg")
        r = zerohop("schedule", "bcast", "-a", "leader-ring", "--nodes", "4", "-r", "8", "-c", "8K", "--svg", svg)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("proved: no deadlock", r.stdout)
        self.assertIn("to rank 4", r.stdout)
        self.assertTrue(Path(svg).read_text().startswith("<svg "))

    def test_schedule_json_and_list(self):
        for line in json.loads(zerohop("schedule", "--list", "--json").stdout):
            ranks = ("--ranks-on", "3", "1", "2")
            r = zerohop("schedule", line["collective"], "-a", line["algorithm"], *ranks, "--json")
            out = json.loads(r.stdout)
            self.assertTrue(out["proved"], line)
            self.assertEqual(len(out["ranks"]), 6)

    def test_pieces_are_what_is_said_or_refused(self):
        def plan(algorithm, *args):
            r = zerohop("schedule", "bcast", "-a", algorithm, "-b", "8M", *args, "--json")
            return json.loads(r.stdout)

        cut = plan("hierarchical", "-r", "2", "-c", "8K")
        pieces = [s["bytes"] for s in cut["ranks"][1] if s["kind"] == "receive"]
        self.assertEqual((pieces, cut["chunk_bytes"], cut["cuts"]), ([8192] * 1024, 8192, True))
        whole = plan("binomial", "-r", "8", "-c", "8K")
        self.assertEqual({s["bytes"] for s in whole["ranks"][0]}, {8 << 20})
        self.assertEqual((whole["chunk_bytes"], whole["cuts"]), (0, False))
        said = zerohop("schedule", "bcast", "-a", "binomial", "-b", "8M", "-c", "8K", "--no-steps").stdout
        self.assertIn("8 MiB, which it does not cut", said)
        r = zerohop("schedule", "bcast", "-a", "hierarchical", "-b", "8M", "-c", "4K")
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertIn("1024 pieces at most: --chunk 8192 or more", r.stderr)
        listed = json.loads(zerohop("schedule", "--list", "bcast", "--json").stdout)
        self.assertEqual([x["algorithm"] for x in listed if x["cuts"]], ["leader-ring", "hierarchical"])

    def test_text_has_80_columns_and_sizes_their_unit(self):
        for words in ("bcast --nodes 2", "allreduce --nodes 2 -a ring", "--list", "bcast --profile gigabit-like"):
            r = zerohop("schedule", *words.split())
            self.assertEqual([line for line in r.stdout.splitlines() if len(line) > 80], [], words)
        r = zerohop("schedule", "bcast", "--bytes", "896K", "--no-steps")
        self.assertIn("on 1 node, 896 KiB, root 0", r.stdout)
        self.assertIn("0 messages of 0 B in all", zerohop("schedule", "bcast", "--bytes", "0", "--no-steps").stdout)
        self.assertIn("of 14 B in all", zerohop("schedule", "bcast", "--bytes", "2", "--no-steps").stdout)

    def test_schedule_refuses(self):
        cases = [(["--bytes", "3", "--element", "2"], "3 bytes are no whole number of elements of 2 bytes")]
        wrong = "Value -1 not in range 0 to 1073741824"
        cases += [([x, "-1", "-p", "gigabit-like"], f"{x}: {wrong}") for x in ("--stride", "--chunk", "--bytes")]
        self.refused(cases, "schedule", "bcast")
        for args in (["nonsense"], ["bcast", "-a", "nonsense"], ["bcast", "--root", "8"], []):
            self.assertEqual(zerohop("schedule", *args).returncode, 2, args)
        self.assertEqual(zerohop("schedule", "allreduce", "-a", "ring", "--ordered").returncode, 2)

    def test_schedule_of_very_many_ranks(self):
        r = zerohop("schedule", "bcast", "--nodes", "100", "-r", "4000", "-b", "64", "--no-steps")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("4000 ranks on 100 nodes", r.stdout)
        self.assertIn("proved: no deadlock", r.stdout)
        cases = (
            (("bcast", "-r", "9", "--nodes", "2"), "9 ranks do not go into 2 nodes alike: --ranks-on"),
            (("bcast", "--nodes", "20000"), "1 to 131072 ranks"),
            (("alltoall", "--nodes", "100", "-r", "4000", "-a", "linear"), "more than 8000000 steps"),
            (
                ("bcast", "--nodes", "100", "-r", "4000", "--svg", "no.svg"),
                "a picture has 1024 ranks at most, not 4000",
            ),
        )
        self.refused(cases, "schedule", "--no-steps")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
