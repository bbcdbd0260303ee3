"""Checks what models say as users ask for it: `zerohop schedule --profile`, `tune --profile` and `model report`.

Usage: check_model.py <zerohop> <cc>
"""

import json
import sys
import unittest
from pathlib import Path

from cli import Case, zerohop

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from zerohop import model_report

MODELS = ["log3P", "2log{2,3}P", "mlog_nP", "mlog_nP+links"]


class Model(Case):
    def of(self, *args):
        r = zerohop(*args)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return json.loads(r.stdout)

    def costs(self, collective, *args, profile="gigabit-like"):
        return self.of("schedule", collective, *args, "--profile", profile, "--no-steps", "--json")["costs"]

    def walk_us(self, *args):
        return self.costs(*args)["models"][3]["walk_us"]

    def profile(self, change):
        """A file with a built-in profile as `change` leaves it."""
        document = self.of("tune", "--profile", "gigabit-like")
        change(document)
        path = Path(self.folder.name) / "profile.json"
        path.write_text(json.dumps(document))
        return str(path)

    def measured(self, *rows):
        path = Path(self.folder.name) / "measured.json"
        path.write_text(json.dumps({"schema": "zerohop-bench-algorithms/1", "rows": rows}))
        return str(path)

    def test_predicts_by_four_models(self):
        args = ("-a", "linear", "-r", "64", "--nodes", "8", "-b", "4K", "--stride", "64")
        out = self.costs("bcast", *args, profile="infiniband-ddr-like")
        self.assertEqual((out["stride"], out["chips_per_node"], out["profile"]["name"]), (64, 2, "infiniband-ddr-like"))
        rows = {row["model"]: row for row in out["models"]}
        self.assertEqual(list(rows), MODELS)
        linked = rows.pop("mlog_nP+links")
        self.assertIsNone(linked["closed_form_us"])
        self.assertGreaterEqual(linked["walk_us"], rows["mlog_nP"]["walk_us"])
        self.assertAlmostEqual(rows["log3P"]["closed_form_us"], 64 * (2.0 + 4.0) + 4.93)
        near, far = 2.0 * 0.508 + 3.74, 2.0 + 4.0
        self.assertAlmostEqual(rows["2log{2,3}P"]["closed_form_us"], 7 * near + 56 * far + 4.93)
        for row in rows.values():
            self.assertGreaterEqual(row["walk_us"], row["closed_form_us"] - 1e-9)
            self.assertIn("section 5.2", row["equation"])

    def test_tiles_that_the_paper_cuts_inside_nodes_alone_are_told(self):
        for chunk, equation in (("8K", "9"), ("0", "8")):
            out = self.costs("bcast", "-a", "hierarchical", "--nodes", "8", "-b", "64K", "-c", chunk)
            told = [f"equation {equation} at one level", f"equation {equation}"]
            self.assertEqual([row["equation"] for row in out["models"][:2]], told)
            self.assertEqual("inside nodes alone" in out["notes"][-2], equation == "9")

    def test_predicts_what_the_paper_has_no_form_for(self):
        for row in self.costs("allreduce", "-b", "64K", "-r", "16", "--nodes", "4")["models"]:
            self.assertIsNone(row["closed_form_us"])
            self.assertGreater(row["walk_us"], 0)
        text = zerohop("schedule", "allreduce", "--no-steps", "-p", "gigabit-like").stdout
        self.assertIn("not in the paper", text)
        for line in text[text.index("profile ") :].splitlines():
            self.assertLessEqual(len(line), 80)

    def test_every_algorithm_has_a_walk(self):
        for line in self.of("schedule", "--list", "--json"):
            self.assertGreater(self.walk_us(line["collective"], "-a", line["algorithm"], "-r", "12", "--nodes", "3"), 0)

    def test_ranks_wait_for_processors(self):
        args = ("allgather", "-a", "ring", "-r", "8", "-b", "64K")
        each = self.walk_us(*args)
        self.assertAlmostEqual(self.walk_us(*args, "--processors", "8"), each)
        self.assertGreater(self.walk_us(*args, "--processors", "2"), 3 * each)

    def test_profiles_are_shown_and_read(self):
        listed = zerohop("tune", "--profile").stdout
        for name in ("gigabit-like", "infiniband-ddr-like"):
            self.assertIn(name, listed)
            self.assertIn("assumed", " ".join(self.of("tune", "--profile", name)["sources"]))
        mine = self.profile(lambda document: document.update(name="mine"))
        self.assertEqual(self.costs("bcast", profile=mine)["profile"]["name"], "mine")

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
            (foreign, "another kind of file; `zerohop tune --profile gigabit-like` prints one to start from"),
        ):
            path = self.profile(change)
            for args in (("schedule", "bcast", "-p", path), ("tune", "--profile", path), ("tune", "--model", path)):
                r = zerohop(*args)
                self.assertEqual((r.returncode, r.stdout), (2, ""), args)
                self.assertIn(said, r.stderr)
                self.assertIn(path, r.stderr)
                self.assertEqual(r.stderr.count("\n"), 1)
        cases = (
            (("/no/such.json",), "no file that can be read (No such file"),
            ((self.folder.name,), "Is a directory"),
            ((str(Path(self.folder.name) / "main.c"),), "it is not JSON"),
        )
        self.refused(cases, "schedule", "bcast", "-p")

    def by_hand(self, **more):
        """A machine of round costs: one end takes 1 µs on a chip, 2 between chips and 4 between nodes, where the
        network takes 10; tables end at 8 KiB."""
        levels = {
            "intra-cmp": {"overhead": [[0, 1], [8192, 1]]},
            "inter-cmp": {"overhead": [[0, 2], [8192, 2]]},
            "inter-node": {"overhead": [[0, 4], [8192, 4]], "network": [[0, 10], [8192, 10]]},
        }
        about = {"format": "zerohop-model-profile", "version": 1, "name": "by-hand", "chips_per_node": 2}
        path = Path(self.folder.name) / "by_hand.json"
        path.write_text(json.dumps(about | {"levels": levels} | more))
        return str(path)

    def test_report_sets_predictions_beside_what_was_measured(self):
        """Of 8 ranks on 2 nodes of 2 chips a binomial broadcast takes one message of each level, one behind another:
        18, 4 and 2 µs. 2log{2,3}P takes chips for one, log3P all for nodes."""
        spread = {"median": 20, "low": 18, "high": 22, "count": 8, "valid": True}
        row = {"collective": "bcast", "algorithm": "binomial", "chunk_bytes": 0, "ranks": 8, "node_ranks": 4}
        path = self.measured(row | {"bytes": 4096, "slowest_us": spread})
        out = self.of("model", "report", path, "-p", self.by_hand(), "--json")
        self.assertEqual([e["prediction"] for e in out["errors"]], ["closed_form", "walk"])
        for errors in out["errors"]:
            for model, us in (("log3P", 54), ("2log{2,3}P", 22), ("mlog_nP", 24)):
                self.assertAlmostEqual(errors["mean_error"][model], us / 20 - 1, msg=(model, errors["prediction"]))
        self.assertAlmostEqual(out["errors"][1]["measured_spread"], 0.1)
        self.assertTrue(out["errors"][1]["holds"])
        few = self.measured(row | {"bytes": 4096, "slowest_us": spread | {"valid": False, "count": 3}})
        out = self.of("model", "report", few, "-p", self.by_hand(), "--json")
        self.assertIsNone(out["errors"][0]["measured_spread"], "three launches have no interval")
        self.assertEqual(out["choices"]["cells"], [], "one algorithm leaves no choice")
        self.assertIn("bcast binomial/0 2x4", zerohop("model", "report", path, "-p", "gigabit-like", "--points").stdout)

    def test_report_says_where_ranks_share_processors_and_tables_end(self):
        spread = {"median": 20, "low": 18, "high": 22, "count": 8, "valid": True}
        row = {"collective": "bcast", "algorithm": "binomial", "chunk_bytes": 0, "ranks": 8, "machines": 2}
        path = self.measured(row | {"bytes": 16384, "slowest_us": spread})
        for processors, own, ranks_each, holds in ((8, 0, 1, True), (4, 0, 2, False), (4, 2, 1, True)):
            profile = self.by_hand(processors_per_node=processors)
            nodes = ("--nodes", str(own)) if own else ()
            out = self.of("model", "report", path, "-p", profile, "--json", *nodes)
            (point,) = out["points"]
            told = (point["ranks_per_processor"], point["holds"], point["beyond_tables"])
            self.assertEqual(told, (ranks_each, holds, True))
            text = zerohop("model", "report", path, "-p", profile, "--points", *nodes).stdout
            self.assertEqual("2 ranks a processor: no comparison" in text, not holds)
            self.assertIn("24 >", text)

    def test_the_papers_figure_2_comes_of_a_profile(self):
        node = {"overhead": [[1024, 1], [4096, 3]], "latency": [{"stride": 8, "us": [[1024, 1]]}]}
        between = {"overhead": [[1024, 2]], "latency": [{"stride": 8, "us": [[1024, 8]]}]}
        lines = model_report.middleware_of({"levels": {"intra-cmp": node, "inter-node": between}})
        less = {(m["bytes"], m["stride"]): m["less"] for m in lines}
        self.assertEqual(less, {(1024, 0): 0.5, (1024, 8): 0.875}, "of the sizes that both have")

    def test_nodes_share_where_those_of_jobs_do(self):
        plan = ("schedule", "bcast", "-a", "hierarchical", "--nodes", "2", "--no-steps", "--json")
        for ranks, size, shares in (("8", "16K", True), ("8", "8K", False), ("6", "64K", False)):
            out = self.of(*plan, "-r", ranks, "-b", size, "--as-jobs")
            self.assertEqual(out["team"], shares, (ranks, size))
            self.assertFalse(self.of(*plan, "-r", ranks, "-b", size)["team"])
        one = ("schedule", "allreduce", "-b", "64K", "--as-jobs", "--no-steps", "--json", "-a")
        by_team = {a: self.of(*one, a)["team"] for a in ("shmem-parallel", "shmem-cyclic", "single-reducer")}
        self.assertEqual(by_team, {"shmem-parallel": True, "shmem-cyclic": True, "single-reducer": False})
        self.assertTrue(
            self.of("schedule", "alltoall", "--nodes", "2", "-b", "64K", "--no-steps", "--json")["left_to_host"]
        )
        self.assertEqual(
            self.of("schedule", "bcast", "--nodes", "2", "--no-steps", "--json")["algorithm"], "host-leaders"
        )

    def test_a_model_of_costs_that_were_taken_over_is_left_out(self):
        """On one node of a machine that was measured log3P would be judged by another profile's network."""
        here = {"level": "shared-l3", "placement": "near", "launches": 6, "stands_for": "intra-cmp"}
        between = {"level": "other-node", "placement": "several", "launches": 6, "stands_for": "inter-node"}
        spread = {"median": 9, "low": 8, "high": 10, "count": 8, "valid": True}
        row = {"collective": "bcast", "algorithm": "linear", "chunk_bytes": 0, "ranks": 4, "bytes": 4096, "stride": 8}
        path = self.measured(row | {"slowest_us": spread})
        for levels, models in (([here], MODELS[1:]), ([here, between], MODELS)):
            profile = self.profile(lambda document, levels=levels: document.update(measured_levels=levels))
            (point,) = self.of("model", "report", path, "-p", profile, "--json")["points"]
            self.assertEqual(list(point["walk_us"]), models)

    def test_report_judges_choices_by_what_was_measured(self):
        """A machine on which the built-in choice takes three times the model's."""
        tables = self.of("tune", "--model", "gigabit-like", "-r", "8", "--nodes", "2", "--print-json")["tables"]
        (entries,) = (c["entries"] for c in tables[1]["collectives"] if c["collective"] == "bcast")
        chosen = [e["algorithm"] for e in entries if e["from_bytes"] <= 1 << 20][-1]
        at = {"collective": "bcast", "chunk_bytes": 65536, "ranks": 8, "node_ranks": 4, "bytes": 1 << 20}

        def row(algorithm, us, to_host):
            spread = {"low": 0.99, "high": 1.01, "median": 1.0, "count": 8, "valid": True}
            times, ratio = ({k: v * x if isinstance(v, float) else v for k, v in spread.items()} for x in (us, to_host))
            return at | {"algorithm": algorithm, "slowest_us": times, "to_host": ratio}

        others = {"linear", "binomial", "leader-ring", "hierarchical"} - {chosen}
        rows = [row(chosen, 10, 0.5), row("auto", 12, 1.2), *(row(name, 30, 1.5) for name in others)]
        choices = self.of("model", "report", self.measured(*rows), "-p", "gigabit-like", "--json")["choices"]
        (cell,) = choices["cells"]
        self.assertEqual((cell["best"], cell["best_is_told"], cell["own_to_host"]["median"]), (chosen, True, 1.2))
        self.assertEqual((cell["model"]["measured_as"], cell["model"]["is"]), (chosen, "near"))
        self.assertEqual(choices["model"]["near"], 1)
        self.assertEqual(choices["slower_than_host"], ["bcast 2x4 1M 1.20"])

    def test_a_choice_is_open_where_intervals_overlap_and_takes_the_closest_chunk(self):
        def case(chunk, low, mid, high):
            us = {"low": low, "median": mid, "high": high, "valid": True}
            return {"algorithm": "ring", "chunk_bytes": chunk, "bytes": 1 << 20, "us": us}

        settings = [case(4096, 9, 10, 14), case(65536, 13, 15, 17), case(0, 20, 30, 40)]
        for chunk, is_, measured in ((8192, "near", "ring/4K"), (32768, "open", "ring"), (4 << 20, "wrong", "ring/0")):
            out = model_report.judged({"algorithm": "ring", "chunk_bytes": chunk}, settings, settings[0])
            self.assertEqual((out["is"], out["measured_as"]), (is_, measured))
        self.assertEqual(model_report.judged({"algorithm": "linear", "chunk_bytes": 0}, settings, settings[0])["is"],
                         "not measured")  # fmt: skip

    def test_refuses(self):
        cases = (
            (("schedule", "bcast", "--stride", "8"), "--profile"),
            (("schedule", "bcast", "-p", "gigabit-like", "--ranks-on", "1", "2"), "nodes that are alike"),
            (("model", "report", "-p", "gigabit-like"), "name a file"),
            (("model", "report", "/no/such", "-p", "gigabit-like"), "/no/such"),
            (("model", "report", self.profile(dict), "-p", "gigabit-like"), "no result of `zerohop bench algorithms"),
            (("model", "report", self.measured(), "-p", "gigabit-like"), "none of its rows"),
        )
        self.refused(cases)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
