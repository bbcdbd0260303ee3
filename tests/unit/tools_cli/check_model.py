"""Checks `zerohop model` as users call it: predictions, takeovers, profiles. Usage: check_model.py <zerohop> <cc>"""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from cli import Case, zerohop


def model(*args, **env):
    return zerohop("model", *args, **env)


class Model(Case):
    def of(self, *args):
        r = model(*args, "--json")
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return json.loads(r.stdout)

    def profile(self, change):
        """A file with a built-in profile as `change` leaves it."""
        document = self.of("profile", "gigabit-like")
        change(document)
        path = Path(self.folder.name) / "profile.json"
        path.write_text(json.dumps(document))
        return str(path)

    def test_help_teaches_and_fits(self):
        for args in ([], ["predict"], ["crossover"], ["choose"], ["compare"], ["judge"], ["papers"], ["profile"]):
            r = model(*args, "--help")
            self.assertEqual(r.returncode, 0, args)
            self.assertIn("  zerohop model ", r.stdout)
            for line in r.stdout.splitlines():
                self.assertLessEqual(len(line), 80, args)
        self.assertEqual(model().returncode, 2)

    def test_predicts_by_four_models(self):
        args = ("predict", "bcast", "--algorithm", "linear", "--ranks", "64", "--nodes", "8", "--size", "4K")
        out = self.of(*args, "--stride", "64", "--profile", "infiniband-ddr-like")
        self.assertEqual((out["bytes"], out["stride"], out["ranks"], out["chips_per_node"]), (4096, 64, 64, 2))
        self.assertEqual(out["profile"]["name"], "infiniband-ddr-like")
        rows = {row["model"]: row for row in out["predictions"]}
        self.assertEqual(list(rows), ["log3P", "2log{2,3}P", "mlog_nP", "mlog_nP+links"])
        linked = rows.pop("mlog_nP+links")
        self.assertIsNone(linked["closed_form_us"])
        self.assertGreaterEqual(linked["walk_us"], rows["mlog_nP"]["walk_us"])
        self.assertAlmostEqual(rows["log3P"]["closed_form_us"], 64 * (2.0 + 4.0) + 4.93)
        near, far = 2.0 * 0.508 + 3.74, 2.0 + 4.0
        self.assertAlmostEqual(rows["2log{2,3}P"]["closed_form_us"], 7 * near + 56 * far + 4.93)
        for row in rows.values():
            self.assertGreaterEqual(row["walk_us"], row["closed_form_us"] - 1e-9)
            self.assertIn("section 5.2", row["equation"])
        self.assertIn("closed form", model(*args).stdout)

    def test_predicts_what_the_paper_has_no_form_for(self):
        out = self.of("predict", "allreduce", "-s", "64K", "-r", "16", "-n", "4")
        self.assertTrue(out["algorithm"])
        for row in out["predictions"]:
            self.assertIsNone(row["closed_form_us"])
            self.assertGreater(row["walk_us"], 0)
        self.assertIn("not in the paper", model("predict", "allreduce").stdout)

    def test_every_algorithm_has_a_walk(self):
        for line in json.loads(zerohop("schedule", "--list", "--json").stdout):
            out = self.of("predict", line["collective"], "-a", line["algorithm"], "-r", "12", "-n", "3", "--root", "0")
            self.assertGreater(out["predictions"][3]["walk_us"], 0, line)

    def test_many_ranks_have_closed_forms_alone(self):
        args = ("predict", "bcast", "-a", "binomial", "-r", "1024000", "-n", "1000")
        out = self.of(*args)
        self.assertIsNone(out["predictions"][0]["walk_us"])
        self.assertGreater(out["predictions"][0]["closed_form_us"], 0)
        self.assertIn("131072 ranks at most, not 1024000", out["notes"][0])
        self.assertNotIn("No walk", "".join(self.of(*args, "--no-walk")["notes"]))
        r = model("predict", "allreduce", "-r", "1024000", "-n", "1000")
        self.assertEqual(r.returncode, 2)
        self.assertIn("131072 ranks at most", r.stderr)

    def test_papers_figures_beside_their_values(self):
        svg = Path(self.folder.name) / "papers.svg"
        (figure,) = self.of("papers", "--only", "ML 8", "--svg", str(svg))["figures"]
        self.assertEqual((figure["nodes"], figure["ranks_per_node"], figure["any_root"]), (8, 8, True))
        self.assertAlmostEqual(figure["paper_gain"], 1.328, 3)
        places = [(row["profile"], row["cyclic"]) for row in figure["rows"]]
        self.assertEqual(len(set(places)), 4)
        for row in figure["rows"]:
            gains = [p["mlog_nP+links"]["gain"] for p in row["points"]]
            self.assertAlmostEqual(row["gain"], max(gains))
            self.assertAlmostEqual(row["least_gain"], min(gains))
            self.assertTrue(row["shown"] or row["why"], "what is not shown is explained")
            self.assertEqual(row["shown"], max(gains) >= 1.164 and min(gains) >= 1.10)
        tree = ElementTree.fromstring(svg.read_text())
        self.assertEqual(len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))), 4)
        r = model("papers", "--only", "ML 8")
        self.assertIn("in blocks, less: ", r.stdout)
        for line in r.stdout.splitlines():
            self.assertLessEqual(len(line), 80)
        r = model("papers", "--only", "XY")
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertIn("there are CC 5 (a), CC 5 (b)", r.stderr)

    def test_takeovers(self):
        out = self.of("crossover", "-r", "16", "-n", "4")
        self.assertEqual((out["from_bytes"], out["to_bytes"], out["model"]), (8, 4 << 20, "mlog_nP+links"))
        self.assertEqual(len(out["collectives"]), 11)
        for line in out["collectives"]:
            sizes = [t["from_bytes"] for t in line["takeovers"]]
            self.assertEqual(sizes, sorted(set(sizes)))
            self.assertEqual(sizes[0], 8)
        (bcast,) = self.of("crossover", "bcast", "-r", "16", "-n", "4")["collectives"]
        first, *later = bcast["takeovers"]
        self.assertTrue(later, "a tree does not stay ahead of a ring")
        at = ("predict", "bcast", "-r", "16", "-n", "4", "-s", str(later[0]["from_bytes"]))
        before, after = (self.of(*at, "-a", t["algorithm"])["predictions"][3]["walk_us"] for t in (first, later[0]))
        self.assertLess(after, before)
        self.assertAlmostEqual(after, later[0]["us"])
        self.assertIn("Fastest by the walk", model("crossover", "bcast").stdout)

    def test_crossover_draws_a_stretch_for_each_algorithm(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "out.svg"
            out = self.of("crossover", "-r", "16", "-n", "4", "--svg", str(file))
            tree = ElementTree.fromstring(file.read_text())
        told = [t.text for t in tree.iter("{http://www.w3.org/2000/svg}title")]
        takeovers = [t for line in out["collectives"] for t in line["takeovers"]]
        self.assertEqual([t.split(" from ")[0] for t in told], [t["algorithm"] for t in takeovers])
        r = model("crossover", "bcast", "--svg", "/no/such/out.svg")
        self.assertEqual(r.returncode, 2)
        self.assertIn("no folder /no/such", r.stderr)

    def test_takeovers_leave_out_what_has_too_many_steps(self):
        r = model("crossover", "alltoall", "-r", "8192", "-n", "8")
        self.assertEqual(r.returncode, 2)
        self.assertIn("4096 ranks at most, not 8192", r.stderr)

    def test_compares_with_what_was_measured(self):
        row = {"collective": "bcast", "algorithm": "binomial", "chunk_bytes": 0, "ranks": 8, "node_ranks": 4}
        us = self.of("predict", "bcast", "-a", "binomial", "-r", "8", "-n", "2", "-s", "4K")["predictions"][3][
            "walk_us"
        ]
        measured = {"median": us, "low": us, "high": us, "count": 8, "valid": True}
        path = Path(self.folder.name) / "measured.json"
        rows = [row | {"bytes": 4096, "slowest_us": measured}]
        path.write_text(json.dumps({"schema": "zerohop-bench-algorithms/1", "rows": rows}))
        out = self.of("compare", str(path), "-p", "gigabit-like")
        self.assertEqual([s["prediction"] for s in out["summaries"]], ["closed_form", "walk"])
        self.assertAlmostEqual(out["summaries"][1]["mean_error"]["mlog_nP+links"], 0)
        self.assertGreater(out["summaries"][1]["mean_error"]["log3P"], 0)
        table = model("compare", str(path), "-p", "gigabit-like", "--points")
        self.assertIn("bcast binomial 2x4", table.stdout)
        path.write_text("{}")
        r = model("compare", str(path), "-p", "gigabit-like")
        self.assertEqual(r.returncode, 2)
        self.assertIn("no result of `zerohop bench algorithms --json`", r.stderr)

    def test_judges_choices_by_what_was_measured(self):
        """A machine on which the built-in choice takes three times the model's."""
        at = {"collective": "bcast", "chunk_bytes": 65536, "ranks": 8, "node_ranks": 4, "bytes": 1 << 20}
        path = Path(self.folder.name) / "measured.json"

        def row(algorithm, us, to_host):
            spread = {"median": us, "low": 0.99 * us, "high": 1.01 * us, "count": 8, "valid": True}
            return at | {"algorithm": algorithm, "slowest_us": spread, "to_host": to_host}

        tables = self.of("choose", "-p", "gigabit-like", "-r", "8", "-n", "2")["tables"]
        (entries,) = (c["entries"] for c in tables[1]["collectives"] if c["collective"] == "bcast")
        chosen = [e["algorithm"] for e in entries if e["from_bytes"] <= 1 << 20][-1]
        others = {"linear", "binomial", "leader-ring", "hierarchical"} - {chosen}
        rows = [row(chosen, 10, 0.5), row("auto", 12, 1.2)] + [row(name, 30, 1.5) for name in others]
        path.write_text(json.dumps({"schema": "zerohop-bench-algorithms/1", "rows": rows}))
        out = self.of("judge", str(path), "-p", "gigabit-like")
        (cell,) = out["cells"]
        self.assertEqual((cell["best"], cell["best_is_told"], cell["own_to_host"]), (chosen, True, 1.2))
        self.assertEqual((cell["slower_than_host"], cell["surely_slower_than_host"]), (True, False), "a median alone")
        self.assertEqual((cell["model"]["measured_as"], cell["model"]["is"]), (chosen, "near"))
        self.assertEqual(out["all"]["model"]["near_best"], 1)
        self.assertEqual([line["collective"] for line in out["collectives"]], ["bcast"])
        text = model("judge", str(path), "-p", "gigabit-like", "--points").stdout
        self.assertIn("100 % (1 of 1)", text)
        self.assertIn("bcast 2x4 1M 1.20 [?]", text)
        path.write_text(json.dumps({"schema": "zerohop-bench-algorithms/1", "rows": rows[:2]}))
        r = model("judge", str(path), "-p", "gigabit-like")
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertIn("two algorithms to choose from", r.stderr)

    def test_ranks_wait_for_processors(self):
        args = ("predict", "allgather", "-a", "ring", "-r", "8", "-n", "1", "-s", "64K")
        each = self.of(*args)["predictions"][3]["walk_us"]
        self.assertAlmostEqual(self.of(*args, "--processors", "8")["predictions"][3]["walk_us"], each)
        two = self.of(*args, "--processors", "2")
        self.assertEqual(two["processors_per_node"], 2)
        self.assertGreater(two["predictions"][3]["walk_us"], 3 * each)
        self.assertIn("2 processors each", model(*args, "--processors", "2").stdout)

    def test_profiles_are_shown_and_read(self):
        listed = model("profile")
        self.assertEqual(listed.returncode, 0)
        for document in self.of("profile"):
            self.assertIn(document["name"], listed.stdout)
            self.assertIn("assumed", " ".join(document["sources"]))
            self.assertEqual(self.of("profile", document["name"]), document)

        def rename(document):
            document["name"] = "mine"

        self.assertEqual(self.of("predict", "bcast", "-p", self.profile(rename))["profile"]["name"], "mine")

    def test_what_is_no_profile_is_refused(self):
        def fall(document):
            document["levels"]["inter-node"]["overhead"] = [[8, 1], [4, 2]]

        def misspell(document):
            document["levels"]["inter-node"]["netwrok"] = [[8, 1]]

        def foreign(document):
            document.clear()
            document["version"] = 4

        for change, said in (
            (fall, "levels.inter-node.overhead: point 2: sizes must rise"),
            (
                misspell,
                "levels.inter-node.netwrok: there is no such key; there are overhead, latency, network, link, gap",
            ),
            (foreign, "another kind of file; `zerohop model profile gigabit-like` prints one to start from"),
        ):
            path = self.profile(change)
            for args in (("predict", "bcast", "-p", path), ("crossover", "-p", path), ("profile", path)):
                r = model(*args)
                self.assertEqual((r.returncode, r.stdout), (2, ""), args)
                self.assertIn(said, r.stderr)
                self.assertIn(path, r.stderr)
                self.assertEqual(r.stderr.count("\n"), 1)
        for path, said in (
            ("/no/such.json", "no file that can be read (No such file"),
            (self.folder.name, "Is a directory"),
            (str(Path(self.folder.name) / "main.c"), "it is not JSON"),
        ):
            r = model("predict", "bcast", "-p", path)
            self.assertEqual(r.returncode, 2)
            self.assertIn(said, r.stderr)

    def test_refuses(self):
        for args, said in (
            (("predict",), "collective is required"),
            (("predict", "nonsense"), "no collective 'nonsense'"),
            (("predict", "bcast", "-a", "nonsense"), "no algorithm 'nonsense'; `zerohop schedule --list bcast`"),
            (("predict", "bcast", "--ranks", "10", "--nodes", "4"), "a multiple of 4"),
            (("predict", "bcast", "--root", "64"), "there is no rank 64"),
            (("predict", "bcast", "--size", "2G"), "--size"),
            (("predict", "bcast", "--ranks", "0"), "--ranks"),
            (("predict", "gather", "--no-walk"), "leave --no-walk out"),
            (("crossover", "nonsense"), "no collective 'nonsense'"),
        ):
            r = model(*args)
            self.assertEqual((r.returncode, r.stdout), (2, ""), args)
            self.assertIn(said, r.stderr, args)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
