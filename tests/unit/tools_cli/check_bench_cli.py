"""Checks the ways of `zerohop bench p2p` to launch that are not rounds, and `shapes`, `coll --form` and `figure`.

Usage: check_bench_cli.py <zerohop>
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ZEROHOP = sys.argv[1]
# A launcher that starts nothing and does not tell its version. The placement of its n-th launch is the n-th letter of a
# file, the last one for ever. A calibration is a file of jobs: each job takes 0.1 µs more for every earlier one, and
# notes what runs beside it.
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
beside = Path(f"/proc/{{os.getppid()}}/task/{{os.getppid()}}/children").read_text().split()
jobs = []
if "run" in args and os.environ.get("ZEROHOP_PROFILE") != "builtin" and "ZEROHOP_CACHE" in os.environ:
    cache = Path(os.environ["ZEROHOP_CACHE"]) / "jobs"
    jobs = cache.read_text().splitlines() if cache.exists() else []
    cache.write_text("\\n".join([*jobs, "job"]))
with noted.open("a") as out:
    print(json.dumps(dict(zerohop="run" in args, only=option("--only"), args=args,
                          chosen=[os.environ.get("ZEROHOP_" + k) for k in ("ALGORITHM", "CHUNK", "NODE_RANKS")],
                          beside=len(beside) - 1, profile=os.environ.get("ZEROHOP_PROFILE"),
                          cache=os.environ.get("ZEROHOP_CACHE"))), file=out)
arms = option("--arms").split(",")
times = [[2.0 + 0.1 * len(jobs) if arm == "zerohop" else 4.0] for arm in arms]
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
        command = [ZEROHOP, "bench", "raw", "--lines", "--json", str(out), "--csv", str(self.folder / "lines.csv")]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(r.returncode, 0, r.stderr)
        document, cpus = json.loads(out.read_text()), sorted(os.sched_getaffinity(0))
        self.assertEqual(
            [row["cpus"] for row in document["rows"]], [[a, b] for a in cpus for b in cpus if a < b], r.stdout
        )
        self.assertTrue(all(row["ns"] > 0 for row in document["rows"]))
        self.assertEqual({row["level"] for row in document["rows"]}, {d["level"] for d in document["distances"]})
        self.assertEqual(len((self.folder / "lines.csv").read_text().splitlines()), 1 + len(document["rows"]))

    def test_by_placement_goes_on_until_each_has_enough(self):
        out, kept = str(self.folder / "out.json"), str(self.folder / "launches.json")
        r, launches = self.bench("nnnffffnnf" * 6, "--by-placement", "--json", out, "--launches", kept)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertLess(len(launches), 60)
        self.assertNotIn("the time is up", r.stderr)
        self.assertNotIn("not resolved", r.stdout)
        document = json.loads(Path(out).read_text())
        self.assertEqual(
            [(s["placement"], s["resolved"]) for s in document["summary"]], [("far", True), ("near", True)]
        )
        rows = document["rows"]
        self.assertEqual({row["placement"] for row in rows}, {"near", "far"})
        for row in rows:
            self.assertGreaterEqual(row["to_best_peer"]["count"], 10)
            self.assertEqual(row["to_best_peer"]["median"], 0.5)
        again = subprocess.run(
            [ZEROHOP, "bench", "p2p", "--by-placement", "--rejudge", kept], capture_output=True, text=True, check=False
        )
        self.assertEqual((again.returncode, again.stdout), (0, r.stdout))

    def test_by_placement_prints_what_the_time_did_not_resolve(self):
        out = str(self.folder / "out.json")
        r, _ = self.bench("nnf", "--by-placement", "--minutes", "0.05", "--json", out)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("the time is up (0.05 minutes)", r.stderr)
        near, far = (r.stdout.index(f"\n{name} · latency") for name in ("near", "far"))
        self.assertIn("custom 1, zerohop 1\n  not resolved", r.stdout[near:])
        self.assertNotIn("not resolved", r.stdout[far:near])
        summary = json.loads(Path(out).read_text())["summary"]
        self.assertEqual([(s["placement"], s["resolved"]) for s in summary], [("far", True), ("near", False)])
        self.assertEqual(summary[1]["launches"], {"custom": 1, "zerohop": 1})

    def test_calibrations_are_made_beside_busy_loops_and_judged_without_them(self):
        out = str(self.folder / "out.json")
        r, launches = self.bench("f", "--calibrate-beside", "0,2", "--rounds", "6", "--json", out)
        self.assertEqual(r.returncode, 0, r.stderr)
        made, judged = launches[:6], launches[6:]
        self.assertEqual([job["beside"] for job in made], [0] * 3 + [2] * 3)
        self.assertEqual(len({job["cache"] for job in made}), 2)
        self.assertEqual({job["beside"] for job in judged}, {0})
        self.assertEqual(len(judged), 18)
        self.assertEqual(sum(job["profile"] == "builtin" for job in judged), 6)
        rows = json.loads(Path(out).read_text())["rows"]
        self.assertEqual([row["calibrated"] for row in rows], ["beside 0", "beside 2"])
        for row in rows:  # three jobs calibrated; none of the judged ones has added to that
            ratio = row["ratio"]
            self.assertEqual([round(ratio[k], 6) for k in ("low", "median", "high")], [1.15] * 3)
        self.assertIn("1.150 [1.150, 1.150]", r.stdout)
        self.assertEqual(list(self.folder.glob("zerohop-bench-*")), [])

    def test_shapes_are_rows_that_models_are_compared_with(self):
        out = self.folder / "shapes.json"
        r, launches = self.bench("nf", "--rounds", "6", "--line", "far", "--json", str(out), bench="shapes")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(len(launches), 12, "the host alone and zerohop beside it, in each round")
        self.assertIn("12 launches, 1 left out that were not far", r.stdout)
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual(
            [(x["algorithm"], x["bytes"], x["stride"], x["machines"]) for x in rows], [("linear", 1024, 8, 1)]
        )
        self.assertAlmostEqual(rows[0]["slowest_us"]["median"], 2.0)
        compared = subprocess.run(
            [ZEROHOP, "model", "compare", str(out), "-p", "gigabit-like", "--points"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertRegex(compared.stdout, r"bcast linear strided 1x2 +1K8S +2\.00")

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
        out, csv = self.folder / "figure.json", self.folder / "figure.csv"
        r, launches = self.bench(
            "f", "ml-6", "--rounds", "2", "--layout", "1x4", "--json", str(out), "--csv", str(csv), bench="figure"
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        tiles = ["0", "4K", "8K", "16K", "64K"]
        first = [x["chosen"][:2] for x in launches[:7]]
        self.assertEqual(first, [[None, None]] * 2 + [["bcast:binomial", tile] for tile in tiles])
        self.assertEqual({x["args"][x["args"].index("-n") + 1] for x in launches}, {"4"})
        self.assertEqual({x["only"] for x in launches}, {"bcast"})
        document = json.loads(out.read_text())
        self.assertEqual((document["figure"], document["pretended_nodes"]), ("ml-6", False))
        rows = {row["series"]: row for row in document["rows"]}
        self.assertEqual(set(rows), {"custom", "zerohop", *(f"zerohop binomial/{tile}" for tile in tiles)})
        self.assertEqual(rows["custom"]["us"]["median"], 4.0)
        self.assertIsNone(rows["custom"]["to_host"])
        for series, row in rows.items():
            self.assertEqual(row["layout"], "1x4")
            self.assertEqual(row["us"]["count"], 2)
            if series != "custom":
                self.assertEqual((row["us"]["median"], row["to_host"]["median"]), (2.0, 0.5))
        self.assertIn("2.000 (0.500)", r.stdout)
        self.assertEqual(len(csv.read_text().splitlines()), 8)

    def test_a_figure_pretends_nodes_for_zerohop_alone(self):
        r, launches = self.bench("f", "ml-8", "--rounds", "1", "--layout", "2x4", "--pretend", bench="figure")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([x["chosen"][2] for x in launches], [None, "4", "4", "4"])
        self.assertTrue(all("--rotate-root" in x["args"] for x in launches))

    def test_figures_are_told_and_refused(self):
        r, launches = self.bench("f", "--list", bench="figure")
        self.assertEqual((r.returncode, launches), (0, []), r.stderr)
        for name in ("limic-12", "limic-13", "cc-5a", "cc-5b", "cc-5c", "cc-7", "ml-6", "ml-7", "ml-8"):
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
            r, launches = self.bench("f", *args, bench="figure")
            self.assertEqual((r.returncode, launches), (2, []), args)
            self.assertIn(said, r.stderr, args)

    def test_options_that_do_not_go_together(self):
        for args, said in (
            (("--minutes", "1"), "--by-placement"),
            (("--by-placement", "--minutes", "0"), "--minutes"),
            (("--by-placement", "--calibrate-beside", "0"), "--by-placement"),
            (("--calibrate-beside", "65"), "--calibrate-beside"),
            (("--calibrate-beside", "0", "--null"), "--null"),
            (("--calibrate-beside", "0", "--only", "latency,queues"), "one group"),
        ):
            r, launches = self.bench("f", *args)
            self.assertEqual((r.returncode, launches), (2, []), args)
            self.assertIn(said, r.stderr, args)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
