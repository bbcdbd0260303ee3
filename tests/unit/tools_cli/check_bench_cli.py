"""Checks the ways of `zerohop bench p2p` to launch that are not rounds, `coll --form` and `papers`.

Usage: check_bench_cli.py <zerohop>
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from zerohop import by_placement, limits

ZEROHOP = sys.argv[1]
# A launcher that starts nothing and does not tell its version. The placement of its n-th launch is the n-th letter of a
# file, the last one for ever.
MPIEXEC = """#!{python} -IS
import json, os, sys
from pathlib import Path
folder, args = Path({folder!r}), sys.argv[1:]
if "--version" in args:
    sys.exit(1)
option = lambda name: args[args.index(name) + 1]
noted = folder / "noted"
number = len(noted.read_text().splitlines()) if noted.exists() else 0
letters = (folder / "placements").read_text()
settings = dict(s.split("=") for s in os.environ.get("ZEROHOP_CONFIG", "").split(",") if s)
with noted.open("a") as out:
    print(json.dumps(dict(zerohop="run" in args, only=option("--only"), args=args,
                          chosen=[os.environ.get("ZEROHOP_ALGORITHM"), *map(settings.get, ("chunk", "node_ranks"))])),
          file=out)
arms = option("--arms").split(",")
times = [[2.0 if arm == "zerohop" else 4.0] for arm in arms]
case = dict(bench="latency", size=1024, buffers="malloc", metrics=dict(time_us=times))
if "--form" in args:
    case |= dict(bench=option("--only"), variant=option("--form"))
if "linear_bcast" in option("--only"):
    case = dict(bench="linear_bcast", size=1024, stride=8, buffers="malloc", metrics=dict(t_max_us=times))
line = dict(n=0.05, f=0.2)[letters[min(number, len(letters) - 1)]]
document = dict(placement="near" if line < 0.1 else "far", line_us=dict(before=line, after=line), ranks=2, arms=arms,
                cases=[case], zerohop_loaded="run" in args, errors=0)
Path(option("--out")).write_text(json.dumps(document))
"""


class Bench(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = Path(name.name)
        for path, text in (
            (self.folder / "mpiexec", MPIEXEC.format(python=sys.executable, folder=name.name)),
            (self.folder / "bench_p2p_ompi", "#!/bin/sh\n"),
            (self.folder / "bench_coll_ompi", "#!/bin/sh\n"),
        ):
            path.write_text(text)
            path.chmod(0o755)

    def bench(self, placements, *args, bench="p2p"):
        (self.folder / "placements").write_text(placements)
        noted = self.folder / "noted"
        noted.unlink(missing_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROHOP_", "LD_PRELOAD", "PMI", "OMPI"))}
        host = ["--mpiexec", str(self.folder / "mpiexec"), "--abi", "ompi", "--programs", str(self.folder)]
        command = [ZEROHOP, "bench", bench, *host, *(["--raw", "off"] if bench == "p2p" else []), *args]
        env = clean | {"TMPDIR": str(self.folder)}
        r = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        return r, [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []

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

    def test_only_algorithms_that_cut_are_measured_in_pieces(self):
        args = ("--only", "bcast", "--ranks", "4", "--chunks", "4K,0", "--rounds", "1")
        r, launches = self.bench("f", *args, bench="algorithms")
        chosen = [x["chosen"][:2] for x in launches]
        for name in ("leader-ring", "hierarchical"):
            self.assertEqual([c for a, c in chosen if a == f"bcast:{name}"], ["4K", "0"], r.stderr)
        for name in ("linear", "binomial", "scatter-ring-allgather", "host-leaders"):
            self.assertEqual([c for a, c in chosen if a == f"bcast:{name}"], [None], r.stderr)

    def by_placement(self, placements, *args):
        (self.folder / "placements").write_text(placements)
        (self.folder / "noted").unlink(missing_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROHOP_", "LD_PRELOAD", "PMI", "OMPI"))}
        host = ["--mpiexec", str(self.folder / "mpiexec"), "--abi", "ompi", "--programs", str(self.folder)]
        command = [sys.executable, "-m", "zerohop.by_placement", "--zerohop", ZEROHOP, *args, "--", *host]
        env = clean | {"TMPDIR": str(self.folder), "PYTHONPATH": str(Path(__file__).parents[3] / "python")}
        command += ["--raw", "off", "--only", "latency", "--buffers", "malloc", "--quick"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)

    def test_by_placement_goes_on_until_each_has_enough(self):
        out = self.folder / "out.json"
        r = self.by_placement("nnnffffnnf" * 6, "--json", str(out))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn("the time is up", r.stderr)
        self.assertNotIn("not resolved", r.stdout)
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual({row["placement"] for row in rows}, {"near", "far"})
        for row in rows:
            self.assertGreaterEqual(row["to_best_peer"]["count"], 10)
            self.assertEqual(row["to_best_peer"]["median"], 0.5)

    def test_by_placement_tells_what_the_time_did_not_resolve(self):
        r = self.by_placement("nf", "--minutes", "0.01")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("the time is up (0.01 minutes)", r.stderr)
        self.assertIn("near   custom bare : 1 launches, not resolved", r.stdout)

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

    def test_shapes_are_rows_that_models_are_compared_with(self):
        out = self.folder / "shapes.json"
        args = ("ml-2", "--rounds", "6", "--line", "far", "--json", str(out))
        r, launches = self.bench("nf", *args, bench="papers")
        self.assertEqual(r.returncode, 0, r.stderr)
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
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual([x["only"] for x in launches if x["zerohop"]], groups)
            for launch in launches:
                args = launch["args"]
                self.assertEqual(args[args.index("--form") + 1], form)
        r, launches = self.bench("f", "--form", "lazy", bench="coll")
        self.assertEqual((r.returncode, launches), (2, []))
        self.assertIn("lazy", r.stderr)

    def test_a_figure_has_a_column_for_each_way(self):
        out = self.folder / "figure.json"
        args = ("ml-8", "--rounds", "2", "--layout", "1x4", "--json", str(out))
        r, launches = self.bench("f", *args, bench="papers")
        self.assertEqual(r.returncode, 0, r.stderr)
        first = [x["chosen"][:2] for x in launches[:4]]
        self.assertEqual(first, [[None, None]] * 2 + [["bcast:hierarchical", tile] for tile in ("8K", "1M")])
        self.assertEqual({x["args"][x["args"].index("-n") + 1] for x in launches}, {"4"})
        self.assertEqual({x["only"] for x in launches}, {"bcast"})
        self.assertTrue(all("--rotate-root" in x["args"] for x in launches))
        document = json.loads(out.read_text())
        self.assertEqual((document["figure"], document["pretended_nodes"]), ("ml-8", False))
        rows = {row["series"]: row for row in document["rows"]}
        self.assertEqual(set(rows), {"custom", "zerohop", "zerohop hierarchical/8K", "zerohop hierarchical/1M"})
        self.assertEqual((rows["custom"]["us"]["median"], rows["custom"]["to_host"]), (4.0, None))
        for series, row in rows.items():
            self.assertEqual((row["layout"], row["us"]["count"]), ("1x4", 2))
            if series != "custom":
                self.assertEqual((row["us"]["median"], row["to_host"]["median"]), (2.0, 0.5))
        self.assertIn("2.000 (0.500)", r.stdout)
        csv = [sys.executable, "-m", "zerohop.csv", str(out)]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "python")}
        lines = subprocess.run(csv, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(len(lines), 5)
        self.assertIn("to_host.median", lines[0])

    def test_a_figure_pretends_nodes_for_zerohop_alone(self):
        r, launches = self.bench("f", "ml-8", "--rounds", "1", "--layout", "2x4", "--pretend", bench="papers")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([x["chosen"][2] for x in launches], [None, "4", "4", "4"])

    def test_figures_are_told_and_refused(self):
        r, launches = self.bench("f", "--list", bench="papers")
        self.assertEqual((r.returncode, launches), (0, []), r.stderr)
        for name in ("limic-12", "limic-13", "cc-5a", "cc-5b", "cc-5c", "cc-7", "cc-8", "ml-2", "ml-8"):
            self.assertIn(f"\n{name}\n", "\n" + r.stdout)
        self.assertLessEqual(max(len(line) for line in r.stdout.splitlines()), 80)
        for args, said in (
            ((), "--list"),
            (("cc-9",), "no such figure: cc-9"),
            (("cc-7", "--machines", "2"), "--layout"),
            (("cc-7", "--layout", "2x"), "no layout: 2x"),
            (("cc-7", "--layout", "1x1"), "no layout: 1x1"),
            (("cc-7", "--layout", "64x65"), "no layout: 64x65"),
        ):
            r, launches = self.bench("f", *args, bench="papers")
            self.assertEqual((r.returncode, launches), (2, []), args)
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
        row |= {
            "zerohop": interval(2.2, 2.3),
            "to_best_peer": interval(1.06, 1.08),
            "peers": {"impi": interval(2, 2.2)},
        }
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
