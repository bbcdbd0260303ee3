"""Checks the ways of `zerohop bench p2p` and `coll` to launch that are not rounds, their arms, layouts and forms.

Usage: check_bench_cli.py <zerohop>
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from fake_mpi import FakeMpi
from zerohop import by_placement, limits

ZEROHOP = sys.argv[1]


class Bench(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = Path(name.name)
        self.mpi = FakeMpi(self.folder, ZEROHOP)

    def bench(self, placements, *args, bench="p2p", code=0):
        self.mpi.place(placements)
        raw = ["--raw", "off"] if bench == "p2p" else []
        r = self.mpi.run("bench", bench, *self.mpi.host, *raw, *args)
        self.assertEqual(r.returncode, code, r.stderr)
        return r, self.mpi.launches()

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two processors")
    def test_lines_has_every_pair_of_processors(self):
        out = self.folder / "lines.json"
        command = [ZEROHOP, "bench", "raw", "--lines", "--json", str(out)]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(r.returncode, 0, r.stderr)
        document, cpus = json.loads(out.read_text()), sorted(os.sched_getaffinity(0))
        self.assertEqual(
            [row["cpus"] for row in document["rows"]], [[a, b] for a in cpus for b in cpus if a < b], r.stdout
        )
        self.assertTrue(all(row["ns"] > 0 for row in document["rows"]))
        self.assertEqual({row["level"] for row in document["rows"]}, {d["level"] for d in document["distances"]})

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two processors")
    def test_parts_of_a_message_add_up_and_a_module_that_is_not_there_is_one_line(self):
        out = self.folder / "parts.json"
        command = [ZEROHOP, "bench", "breakdown", "--rounds", "2", "--quick", "--sizes", "1K,64K", "--json", str(out)]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if r.returncode == 77:
            self.skipTest(r.stdout)
        self.assertEqual(r.returncode, 0, r.stderr)
        document = json.loads(out.read_text())
        for row in document["rows"]:
            parts = {name: row[f"{name}_us"]["median"] for name in ("message", "trap", "map", "copy", "rest", "mapped")}
            self.assertAlmostEqual(sum(parts[n] for n in ("trap", "map", "copy", "rest")), parts["message"], 3, row)
            self.assertGreater(min(parts["message"], parts["trap"], parts["mapped"]), 0, row)
        ways = {row["way"] for row in document["rows"]}
        self.assertEqual(ways | set(document["not_measured"]), {"process_vm_readv", "/dev/zerohop"})
        for way in document["not_measured"]:
            self.assertEqual(r.stdout.count(f"\n{way}: not measured: "), 1, r.stdout)
        self.assertEqual([row["size"] for row in document["rows"]], [1024, 65536] * len(ways))

    def test_only_algorithms_that_cut_are_measured_in_pieces(self):
        args = ("--only", "bcast", "--ranks", "4", "--chunks", "4K,0", "--rounds", "1")
        r, launches = self.bench("f", *args, bench="algorithms")
        chosen = [(x["variables"].get("ZEROHOP_ALGORITHM"), x["settings"].get("chunk")) for x in launches]
        for name in ("leader-ring", "hierarchical"):
            self.assertEqual([c for a, c in chosen if a == f"bcast:{name}"], ["4K", "0"], r.stderr)
        for name in ("linear", "binomial", "scatter-ring-allgather", "host-leaders"):
            self.assertEqual([c for a, c in chosen if a == f"bcast:{name}"], [None], r.stderr)

    def saved(self, *arguments, **env):
        """The run's end and its table of algorithms; times of a busy machine leave none."""
        kept, cache = self.folder / "launches.json", self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        words = ("bench", "algorithms", *self.mpi.host, "--ranks", "4", "--rounds", "2", "--sizes", "16", *arguments)
        r = self.mpi.run(*words, "--launches", str(kept), **env)
        document = json.loads(kept.read_text())
        for others, code in ((2.0, 1), (0.0, 0)):
            kept.write_text(json.dumps(document | {"machine": {"known": True, "others_during": others}}))
            again = self.mpi.run(*words, "--rejudge", str(kept), "--save", ZEROHOP_CACHE=str(cache))
            self.assertEqual((again.returncode, cache.exists()), (code, code == 0), again.stderr)
            self.assertEqual("nothing is saved, such times" in again.stderr, code == 1)
        (table,) = cache.glob("collectives-*.txt")
        return r, [line for line in table.read_text().splitlines() if not line.startswith("#")]

    def test_bench_algorithms_saves_the_fastest(self):
        out, us = self.folder / "out.json", {"bcast:leader-ring": 1.0, "bcast:leader-ring/4K": 0.5}
        self.mpi.place("f")
        args = ("--only", "bcast", "--chunks", "4K,64K", "--node-ranks", "2", "--json", str(out))
        r, lines = self.saved(*args, FAKE_US=json.dumps(us))
        launches = self.mpi.launches()
        self.assertEqual(len(launches), 2 * (1 + 2 * 2 + 4), "two rounds of auto, two algorithms that cut, four others")
        self.assertIn("bcast · 4 ranks · nodes of 2 · zerohop under custom · 2 rounds", r.stdout)
        self.assertEqual(r.stdout.count("0.500 (0.125)*"), 1)
        rows = json.loads(out.read_text())["rows"]
        fastest = {row["algorithm"] for row in rows if row["to_host"]["median"] == 0.125}
        self.assertEqual(fastest, {"leader-ring/4K"})
        self.assertEqual(lines, ["bcast 4 several 0 leader-ring 4096"])
        entry = {"collective": "bcast", "ranks": 4, "several_nodes": True, "from_bytes": 0,
                 "algorithm": "leader-ring", "chunk_bytes": 4096}  # fmt: skip
        info = self.mpi.run("info", "--json", ZEROHOP_CACHE=str(self.folder / "cache"))
        self.assertEqual(json.loads(info.stdout)["collectives"]["ompi"]["entries"], [entry])
        # What a team did on one node is no schedule's time.
        self.mpi.place("f")
        us = '{"allreduce:shmem-cyclic": 1.0, "allreduce:ring": 1.5}'
        self.assertEqual(self.saved("--only", "allreduce", FAKE_US=us)[1], ["allreduce 4 one 0 ring 65536"])

    def by_placement(self, placements, *args):
        self.mpi.place(placements)
        command = [sys.executable, "-m", "zerohop.by_placement", "--zerohop", ZEROHOP, *args, "--", *self.mpi.host]
        env = self.mpi.environment(PYTHONPATH=str(Path(__file__).parents[3] / "python"))
        command += ["--raw", "off", "--only", "latency", "--buffers", "malloc", "--quick"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)

    def test_by_placement_goes_on_until_each_has_enough(self):
        out = self.folder / "out.json"
        r = self.by_placement("nnnffffnnf" * 6, "--json", str(out))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn("No ratio is resolved", r.stdout)
        self.assertNotIn("the time is up", r.stderr)
        self.assertNotIn("not resolved", r.stdout)
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual({row["placement"] for row in rows}, {"near", "far"})
        for row in rows:
            self.assertGreaterEqual(row["to_best_peer"]["count"], 10)
            self.assertEqual(row["to_best_peer"]["median"], 0.5)

    def test_by_placement_tells_what_the_time_did_not_resolve(self):
        r = self.by_placement("nf", "--minutes", "0.01")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("No ratio is resolved: that takes 6 launches", r.stdout)
        self.assertIn("round 1, at most 0.0 minutes left", r.stderr)
        self.assertIn("the time is up (0.01 minutes)", r.stderr)
        self.assertIn("near   custom bare : 1 launches, not resolved", r.stdout)

    def test_tiny_sizes_are_those_of_latency(self):
        r, launches = self.bench("n", "--sizes", "0,4", "--rounds", "1")
        only = {x["args"][x["args"].index("--only") + 1] for x in launches}
        self.assertEqual(only, {"latency", "noreuse"}, "other parts have none of these sizes")
        self.assertRegex(r.stdout, r"\n0 +\S.*\]\n4 .*\] +2\n", "no rate of nothing")

    def test_launches_are_paired_with_the_closest_of_their_placement(self):
        def launch(at_s, placement, zerohop):
            document = {"placement": placement}
            kind = {"group": "g", "host": "a", "zerohop": zerohop, "setting": ""}
            return kind | {"at_s": at_s, "document": document, "round": 0}

        all_ = [launch(0, "near", True), launch(1, "far", False), launch(90, "near", False),
                launch(100, "near", True), launch(103, "near", False), launch(5, "near", False)]  # fmt: skip
        by_placement.pair_by_time(all_)
        rounds = [x["round"] for x in all_]
        self.assertEqual((rounds[5], rounds[4]), (rounds[0], rounds[3]), "3 s away, the other one 10 s")
        self.assertEqual(len({rounds[0], rounds[3], rounds[2]}), 3, "none is left for the third")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
    def test_a_picture_says_what_lies_above_it(self):
        rows, svg = self.folder / "rows.json", self.folder / "rows.svg"
        times = {"median": 1, "low": 1, "high": 1}
        row = {"bench": "latency", "metric": "time_us", "rounds": 6, "best_peer": "impi", "placement": "near",
               "size": 8, "buffers": "malloc", "peers": {"impi": times, "mpich": times | {"median": 7.25}},
               "zerohop": times, "to_best_peer": times}  # fmt: skip
        rows.write_text(json.dumps({"rows": [row]}))
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "python")}
        for file in (svg, svg.with_suffix(".png"), svg.with_suffix(".pdf")):
            command = [sys.executable, "-m", "zerohop.plot", str(rows), str(file)]
            r = subprocess.run(command, env=env, capture_output=True, text=True)
            self.assertEqual((r.returncode, r.stderr, file.exists()), (0, "", True))
        self.assertIn(">7.25<", svg.read_text())

    def test_shapes_are_rows_that_models_are_compared_with(self):
        out = self.folder / "shapes.json"
        args = ("--only", "linear_bcast", "--ranks", "2", "--sizes", "1K", "--rounds", "6", "--line", "far")
        r, launches = self.bench("nf", *args, "--json", str(out), bench="coll")
        self.assertEqual(len(launches), 12, "the host alone and zerohop beside it, in each round")
        self.assertIn("12 launches, 1 left out that were not far", r.stdout)
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual(
            [(x["algorithm"], x["bytes"], x["stride"], x["machines"]) for x in rows], [("linear", 1024, 8, 1)]
        )
        self.assertAlmostEqual(rows[0]["slowest_us"]["median"], 2.0)
        command = [ZEROHOP, "model", "report", str(out), "-p", "gigabit-like", "--points"]
        compared = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertRegex(compared.stdout, r"bcast linear/0 1x2 +walk +1K8S +2 \[")

    def test_forms_reach_the_program_and_persistent_collectives_have_launches_of_their_own(self):
        once = ("--rounds", "1", "--ranks", "2", "--only", "flat,bcast,reduce")
        for form, groups in (
            ("nonblocking", ["bcast,reduce"]),
            ("persistent", ["bcast", "reduce"]),
            ("blocking,persistent", ["flat", "bcast", "reduce"]),
        ):
            r, launches = self.bench("f", *once, "--form", form, bench="coll")
            self.assertEqual([x["only"] for x in launches if x["zerohop"]], groups)
            for launch in launches:
                args = launch["args"]
                self.assertEqual(args[args.index("--form") + 1], form)
        r, launches = self.bench("f", "--form", "lazy", bench="coll", code=2)
        self.assertEqual(launches, [])
        self.assertIn("lazy", r.stderr)

    def test_each_arm_has_launches_and_a_column(self):
        out = self.folder / "arms.json"
        arms = ("--arm", "plain", "--arm", "tiles:ZEROHOP_ALGORITHM=bcast:hierarchical,chunk=8K")
        args = ("--only", "bcast", "--sizes", "64K", "--layout", "1x4,2x2:turn", "--rotate-root", *arms)
        r, launches = self.bench("f", *args, "--rounds", "2", "--json", str(out), bench="coll")
        self.assertEqual(len(launches), 8, "two arms, in two layouts, twice; the host beside each")
        chosen = [(x["variables"].get("ZEROHOP_ALGORITHM"), x["settings"]) for x in launches[:2]]
        self.assertEqual(chosen, [(None, {}), ("bcast:hierarchical", {"chunk": "8K"})])
        self.assertEqual({x["args"][x["args"].index("-n") + 1] for x in launches}, {"4"})
        self.assertTrue(all("--rotate-root" in x["args"] for x in launches))
        rows = {(x["series"], x["metric"]): x for x in json.loads(out.read_text())["rows"]}
        self.assertEqual({series for series, _ in rows}, {"custom", "plain", "tiles"})
        tiles = rows["tiles", "time_us"]
        self.assertEqual((tiles["value"]["median"], tiles["to_host"]["median"]), (2.0, 0.5))
        self.assertEqual({x["round"] for x in tiles["launches"]}, {0, 1})
        self.assertFalse(rows["custom", "time_us"]["zerohop"])
        self.assertEqual(rows["custom", "time_us"]["value"]["median"], 4.0)
        self.assertIn("2.000 (0.500)", r.stdout)
        csv = [sys.executable, "-m", "zerohop.csv", str(out)]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "python")}
        lines = subprocess.run(csv, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertIn("to_host.median", lines[0])

    def test_arms_replace_the_settings_that_are_forced_and_are_judged_again(self):
        kept = self.folder / "launches.json"
        args = ("--only", "skew", "--rounds", "1", "--arm", "mine:skew=0", "--launches", str(kept))
        _, launches = self.bench("f", *args)
        self.assertEqual([x["settings"] for x in launches if x["zerohop"]], [{"skew": "0"}])
        again, launches = self.bench("f", "--only", "skew", "--rejudge", str(kept))
        self.assertEqual(launches, [])
        r, _ = self.bench("f", "--rejudge", str(kept), "--json", str(kept), code=2)
        self.assertIn(f"would replace the launches: {kept}", r.stderr)
        wrong = self.folder / "wrong.json"
        for text in ('{"launches": 8}', '{"launches": {}}', '{"launches": [1]}', '{"launches": [{}]}', "[]"):
            wrong.write_text(text)
            r, _ = self.bench("f", "--rejudge", str(wrong), code=2)
            self.assertIn("wrong.json holds no launches", r.stderr)
        for list_ in ("9999", "0,0", "0", "0,x"):
            r, launches = self.bench("f", "--processors", list_, code=2)
            self.assertEqual(launches, [], list_)
        self.assertIn("mine", again.stdout)

    def test_a_matrix_multiplication_is_a_program_of_its_own(self):
        words = ("--only", "matmul", "--ranks", "2", "--sizes", "16", "--rounds", "1")
        r, launches = self.bench("f", *words, bench="coll")
        self.assertTrue(all(any("bench_matmul_ompi" in word for word in x["args"]) for x in launches))
        self.assertIn("16 x 16", r.stdout)

    def test_what_is_no_arm_or_layout_is_refused(self):
        for bench, args, said in (
            ("coll", ("--layout", "2x"), "no layout: 2x"),
            ("coll", ("--layout", "1x1"), "no layout: 1x1"),
            ("coll", ("--layout", "64x65"), "no layout: 64x65"),
            ("coll", ("--layout", "2x2", "--machines", "2"), "not --machines"),
            ("coll", ("--only", "matmul,bcast"), "--only matmul"),
            ("coll", ("--only", "linear_bcast,bcast"), "linear_bcast is no collective"),
            ("coll", ("--only", "bcast", "--sizes", "12"), "--sizes"),
            ("p2p", ("--arm", "a:no_such=1"), "no_such"),
            ("p2p", ("--arm", ":heap=0"), "NAME"),
        ):
            self.mpi.place("f")
            r = self.mpi.run("bench", bench, *self.mpi.host, *args)
            self.assertEqual((r.returncode, self.mpi.launches()), (2, []), args)
            self.assertIn(said, r.stderr, args)

    def test_limits_are_met_missed_or_open(self):
        def interval(low, high, *, valid=True):
            return {"low": low, "median": (low + high) / 2, "high": high, "valid": valid}

        row = {
            "bench": "latency",
            "metric": "time_us",
            "size": 64 << 10,
            "buffers": "malloc",
            "variant": "",
            "ranks": 2,
        }
        row |= {"placement": "near", "host": "mpich", "best_peer": "impi", "line_us": 0.1, "raw_us": 2.0, "param": 0}
        row |= {"zerohop": interval(2.2, 2.3), "to_best_peer": interval(1.06, 1.08)}
        row |= {"peers": {"impi": interval(2, 2.2)}}
        row |= {"to_own_host": interval(0.5, 0.6), "to_heap_off": interval(1.0, 1.1)}

        def verdicts(**changes):
            told = limits.judged_rows([row | changes])
            return {what.split(": ")[1].split()[0] + what.split("limit ")[1]: verdict for verdict, what in told}

        near = verdicts()
        self.assertEqual(near["to_best_peer1.1"], "met", "Intel MPI's cells are as good as cells get")
        self.assertEqual(near["raw1.2"], "met")
        self.assertEqual(near["to_heap_off1.05"], "open")
        self.assertEqual(verdicts(best_peer="openmpi")["to_best_peer1.05"], "missed")
        self.assertEqual(verdicts(size=1 << 20)["to_best_peer1.05"], "missed")
        self.assertEqual(verdicts(zerohop=interval(2.5, 2.6))["raw1.2"], "missed")
        self.assertEqual(verdicts(to_own_host=interval(0.5, 0.6, valid=False))["to_own_host1.05"], "open")
        self.assertEqual(verdicts(size=8, zerohop=interval(0.9, 0.95))["excess0.5"], "met", "above the raw line")
        skew = row | {"bench": "skew", "metric": "c3_us", "size": 16 << 10, "variant": "single_copy_skew_off"}
        slow = skew | {"param": 100, "zerohop": interval(5862, 5862)}
        told = limits.judged_shares([skew | {"param": 10, "zerohop": interval(102, 102)}, slow])
        self.assertEqual([(v, "slope of the producer's time 1," in what) for v, what in told], [("met", True)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
