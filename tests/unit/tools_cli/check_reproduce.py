"""Checks `zerohop reproduce`: its table of figures, what it launches, how it judges, what it writes.

Usage: check_reproduce.py <zerohop>
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from fake_mpi import FakeMpi
from zerohop.interval import Interval
from zerohop.reproduce import __main__ as command
from zerohop.reproduce import measure, misses, page, programs, show, simulate, store
from zerohop.reproduce.describe import HYBRID, IMPOSSIBLE, KERNEL, RUN, SHARED, Bench, Claim, algorithm, less
from zerohop.reproduce.figures import FIGURES
from zerohop.reproduce.judge import FAILS, HOLDS, OPEN, Finding, Verdict, judge, together

ZEROHOP = sys.argv[1]
# Counted in the papers: figures of each, and the tables.
FIGURES_OF = {"hybrid": 11, "limic": 16, "ml": 8, "cc": 8}
TABLES = ("hybrid-t1", "limic-t1", "limic-t2")
# Panels of figures that the papers' text tells apart.
PANELS = ("hybrid-2a", "hybrid-2b", "hybrid-2c", "hybrid-8a", "hybrid-8b", "hybrid-8c", "hybrid-9a", "hybrid-9b",
          "cc-2a", "cc-2b", "cc-2c", "cc-5a", "cc-5b", "cc-5c", "cc-6a", "cc-6b", "cc-6c")  # fmt: skip
BY_ID = {f.id: f for f in FIGURES}
# What figures' own code computes: a claim of anything else would stay open for ever.
VALUES = r"leader-ring|hierarchical|overhead|latency|both|(log3P by )?2log\{2,3\}P|readers|step|(copy|pin) at (1|64)K"
VALUES += f"|{KERNEL.name}|(is|ft|cg|mg|hpcc HPL)( ({'|'.join([*programs.SHARES, *programs.COUNTS])}))?"


def interval(low, median, high, count=8):
    return Interval(median, low, high, count, count >= 6)


class Figures(unittest.TestCase):
    def test_every_figure_and_table_of_the_papers_is_named(self):
        self.assertEqual(len(BY_ID), len(FIGURES), "names are unique")
        for paper, count in FIGURES_OF.items():
            known = {int(m[1]) for f in FIGURES if f.paper == paper and (m := re.search(r"figure (\d+)", f.number))}
            self.assertEqual(known, set(range(1, count + 1)), paper)
        self.assertLessEqual({*TABLES, *PANELS}, set(BY_ID))

    def test_what_is_run_claims_something_and_what_is_not_says_why(self):
        for f in FIGURES:
            self.assertTrue(f.shows and f.headline and f.here, f.id)
            self.assertEqual(bool(f.claims), f.kind in (RUN, "simulated"), f.id)
            self.assertEqual(f.minutes > 0, f.kind in (RUN, "simulated"), f.id)
            series = {a.name for b in f.bench for a in b.arms} | {"host"}
            for c in f.claims:
                known = {c.new, c.old} <= series if f.bench else re.fullmatch(VALUES, c.new)
                self.assertTrue(known, f"{f.id} claims something of a series that it has not: {c}")

    def test_names_have_one_meaning_and_figures_measure_what_the_papers_tell(self):
        arms = {a for f in FIGURES if f.paper in ("hybrid", "limic") for b in f.bench for a in b.arms}
        self.assertEqual(len({a.name for a in arms}), len(arms))
        self.assertLessEqual({"skew=0", "keep_copies=0"}, set(KERNEL.options.split(",")))
        for name, most in (("hybrid-2b", 256), ("hybrid-2c", 128)):  # too early an overtaking is seen
            self.assertLess(min(map(measure.bytes_of, BY_ID[name].bench[0].sizes.split(","))), most)
        self.assertIn("mpich", measure.bench_words(measure.Lab(ZEROHOP), BY_ID["ml-8"].bench[0], BY_ID["ml-8"].under))


class Judge(unittest.TestCase):
    def test_gains_are_judged_in_both_directions(self):
        quarter = (1.25, 1.25)
        for ours, state, beyond, said in (
            (interval(1.2, 1.25, 1.3), HOLDS, False, "1.25"),
            (interval(1.13, 1.15, 1.2), HOLDS, False, ""),
            (interval(1.02, 1.05, 1.08), FAILS, False, "smaller"),
            (interval(0.99, 1.0, 1.01), FAILS, False, "no gain"),
            (interval(0.7, 0.8, 0.9), FAILS, False, "slower here"),
            (interval(4.9, 5.05, 5.2), HOLDS, True, "far above"),
            (interval(13, 14, 15), FAILS, True, "over 10 times"),
            (interval(0.9, 1.25, 1.5), OPEN, False, "holds 1"),
            (interval(1.3, 1.6, 2.0), HOLDS, False, ""),
            (interval(1.05, 1.25, 1.5), OPEN, False, "reaches over"),
            (interval(1.2, 1.25, 1.3, count=5), OPEN, False, "5 launches"),
            (None, OPEN, False, "nothing was measured"),
        ):
            verdict = judge(Finding("x", quarter, ours))
            self.assertEqual((verdict.state, verdict.beyond), (state, beyond), f"{ours}: {verdict}")
            self.assertIn(said, verdict.because)

    def test_sizes_that_are_slower_are_told_and_count_where_the_paper_has_none(self):
        told = {"slower": ["16K (0.72)"]}
        verdict = judge(Finding("x", (1.25, 1.25), interval(1.2, 1.25, 1.3), **told))
        self.assertEqual(verdict.state, HOLDS)
        self.assertIn("slower at 16K (0.72)", verdict.because)
        verdict = judge(Finding("x", (1.25, 1.25), interval(1.2, 1.25, 1.3), everywhere=True, **told))
        self.assertEqual(verdict.state, FAILS)

    def test_a_direction_alone_has_no_far_above(self):
        for ours, state in (((5, 6, 7), HOLDS), ((0.9, 1.1, 1.2), OPEN), ((0.5, 0.6, 0.7), FAILS), ((1, 1, 1), FAILS)):
            self.assertEqual(judge(Finding("x", (1, None), interval(*ours))).state, state)

    def test_other_values_have_the_papers_range_alone(self):
        outside, over = ((0.0, 0.01, 0.02), (2, 3, 4)), ((0.5, 1, 3), (0.9, 1.3, 1.4))
        for ours, state in (((0.9, 1.0, 1.1), HOLDS), *((o, FAILS) for o in outside), *((o, OPEN) for o in over)):
            self.assertEqual(judge(Finding("slope", (0.8, 1.2), interval(*ours), is_gain=False)).state, state)

    def test_less_than_five_percent_is_a_bound(self):
        for ours, state in (((0.999, 1, 1.001), HOLDS), ((2.9, 3, 3.1), FAILS), ((0.99, 1.01, 1.2), OPEN)):
            for claim in BY_ID["hybrid-9b"].claims:
                found = programs.value(claim, {claim.new: interval(*ours)}, gain=claim.kind == "gain")
                self.assertEqual(judge(found).state, state)

    def test_a_figure_holds_where_all_its_findings_do(self):
        hold, fail, open_ = (Verdict(s, "") for s in (HOLDS, FAILS, OPEN))
        self.assertEqual(together([hold, hold]), HOLDS)
        self.assertEqual(together([hold, open_]), OPEN)
        self.assertEqual(together([open_, fail, hold]), FAILS)
        self.assertEqual(together([]), OPEN)

    def test_intervals_are_those_of_the_benchmarks(self):
        """Order statistics, as tests/unit/tools/bench/stats_test.cpp has them."""
        self.assertEqual(Interval.of([3, 1, 2, 6, 5, 4]), Interval(3.5, 1, 6, 6, True))
        self.assertFalse(Interval.of([1, 2, 3, 4, 5]).valid)
        self.assertEqual(Interval.of(list(range(1, 10))), Interval(5, 2, 8, 9, True))
        self.assertIsNone(Interval.of([]))


def rows(series, *, metric="time_us", x=1024, rounds=8, to_host=(), **more):
    """One row of a document: a value for each round."""
    launches = [{"round": n, "value": 1.0} | ({"to_host": to_host[n]} if to_host else {}) for n in range(rounds)]
    row = {"bench": "bcast", "variant": "", "bytes": x, "param": 0, "metric": metric, "ranks": 8, "machines": 1}
    row |= {"in_turn": False, "placement": "near", "series": series, "zerohop": bool(to_host), "launches": launches}
    return row | more


class Findings(unittest.TestCase):
    def tables(self, *all_rows, **how):
        bench = replace(Bench(("coll",), ()), **how)
        return measure.tables_of({"rows": list(all_rows)}, bench)

    def test_a_gain_pairs_launches_of_a_round(self):
        drift = [1.0, 0.5, 0.25, 0.125, 1, 1, 1, 1]
        (table,) = self.tables(rows("new", to_host=[d / 2 for d in drift]), rows("old", to_host=drift), rows("openmpi"))
        finding = measure.finding_of(table, Claim("x", (2, 2), "new", "old"))
        self.assertEqual(finding.ours, Interval(2, 2, 2, 8, True))
        by_host = measure.finding_of(table, Claim("x", (2, 2), "new"))
        self.assertEqual((by_host.ours.low, by_host.ours.high), (2, 16))

    def beside(self, new, **more):
        """One table: times of `new` by x, one or those of all rounds, beside old ones of 1."""
        times = {x: t if isinstance(t, list) else [t] * 8 for x, t in new.items()}
        sides = [rows(n, x=x, to_host=t, **more) for x in new for n, t in (("new", times[x]), ("old", [1.0] * 8))]
        (table,) = self.tables(*sides)
        return table

    def test_the_size_from_which_a_way_is_faster_has_no_slower_one_behind_it(self):
        swings = [1.2, 0.8] * 4  # may be faster or not
        for new, paper, state, first in (
            ({1: 0.5, 2: 2.0, 4: 0.5, 8: 0.5}, 4, HOLDS, 4),
            ({1: 0.5, 2: 2.0, 4: 0.5, 8: 0.5}, 1, FAILS, 4),
            ({1: 0.5, 2: 2.0, 4: 0.5, 8: 2.0}, 2, FAILS, None),
            ({1: 0.5, 2: 2.0, 4: 0.5, 8: 2.0}, 8, OPEN, None),  # larger sizes were not measured
            ({1: 2.0, 2: swings, 4: swings, 8: 0.5}, 2, OPEN, 8),
            ({1: 2.0, 2: swings, 4: swings, 8: 0.5}, 4, HOLDS, 8),
            ({1: 2.0, 2: swings, 4: swings, 8: 0.5}, 32, FAILS, 8),
        ):
            finding = measure.finding_of(self.beside(new), Claim("x", (paper, paper), "new", "old", kind="from"))
            self.assertEqual((judge(finding).state, finding.ours and finding.ours.median), (state, first), paper)

    def test_a_direction_without_a_size_has_no_slower_one(self):
        for at, state in (((), FAILS), ((1,), HOLDS)):
            finding = measure.finding_of(self.beside({1: 0.5, 2: 1.5}), Claim("x", (1, None), "new", "old", at))
            self.assertEqual(judge(finding).state, state)

    def test_reuse_is_a_ratio_of_two_gains(self):
        times = (("latency", "new", 0.25), ("latency", "old", 1.0), ("noreuse", "new", 0.5), ("noreuse", "old", 1.0))
        tables = self.tables(*(rows(name, bench=bench, to_host=[t] * 8) for bench, name, t in times), words=("p2p",))
        (found,) = measure.findings_of(tables, [Claim("x", (1, None), "new", "old", kind="reuse")])
        self.assertEqual(found.ours.median, 2)

    def test_more_ranks_than_processors_are_told_with_the_verdict(self):
        for processors, said in ((2, "8 ranks on 2 processors"), (8, "")):
            table = self.beside({1: 0.5}, processors=processors)
            (found,) = measure.findings_of([table], [Claim("x", (2, 2), "new", "old")])
            self.assertEqual(said in judge(found).because and found.note, said)

    def test_the_best_other_tile_is_found(self):
        all_rows = [rows(name, to_host=[t] * 8) for name, t in (("8K", 0.5), ("64K", 0.4), ("1M", 0.9), ("whole", 0.1))]
        (table,) = self.tables(*all_rows)
        finding = measure.finding_of(table, Claim("x", (1, None), "8K", "whole", kind="best"))
        self.assertAlmostEqual(finding.ours.median, 0.8)
        self.assertEqual(judge(finding).state, FAILS)

    def test_slopes_are_of_64_times_the_delay(self):
        def one(c2, us):
            row = rows("kernel", metric="c3_us", param=c2, to_host=[1.0] * 8)
            return row | {"launches": [{"round": n, "value": us, "to_host": 1.0} for n in range(8)]}

        (table,) = self.tables(one(10, 640.0), one(110, 7040.0), metric="c3_us", x="param")
        self.assertAlmostEqual(measure.finding_of(table, Claim("x", (0.8, 1.2), "kernel", kind="slope")).ours.median, 1)

    def test_launches_that_are_too_few_at_one_distance_do_not_hide_the_others(self):
        near = [rows("new", to_host=[0.5] * 8), rows("old", to_host=[1.0] * 8)]
        far = [r | {"placement": "far", "launches": r["launches"][:2]} for r in near]
        found = list(measure.findings_of(self.tables(*near, *far), [Claim("x", (2, 2), "new", "old")]))
        self.assertEqual([f.ours.count for f in found], [8])

    def test_parts_of_a_message_are_the_modules_where_it_is_loaded(self):
        def row(way, copied):
            us = {f"{part}_us": vars(interval(2, 4, 5)) for part in ("trap", "map", "copy", "rest", "post", "pin")}
            return us | {"way": way, "size": 65536, "copy_percent": vars(interval(copied, copied, copied))}

        lab = measure.Lab(ZEROHOP)
        rows = [row("process_vm_readv", 60), row("/dev/zerohop", 70)]
        lab.measured = lambda *_: {"emulated": False, "rows": rows, "not_measured": {"/dev/zerohop": "not there"}}
        made = programs.breakdown(lab, BY_ID["limic-8"])
        self.assertEqual(([p.title for p in made.panels], made.findings[0].ours.median), ([r["way"] for r in rows], 70))
        pinned = programs.breakdown(lab, BY_ID["limic-9"])
        self.assertEqual((list(pinned.panels[0].series), pinned.findings[0].ours.low), (["pin", "post"], 50))
        rows.pop()
        with self.assertRaisesRegex(measure.Unavailable, "/dev/zerohop: not there"):
            programs.breakdown(lab, BY_ID["limic-9"])

    def test_values_of_applications(self):
        spread = {"median": 0.8, "low": 0.75, "high": 0.85, "valid": True}
        row = {"app": "is", "ratio": spread, "size_table": {"messages": {"<1K": 30, "1K-32K": 10, ">=1M": 10}}}
        ours = programs.app_values([row], "ratio", 8)["is"]
        self.assertAlmostEqual(ours.median, 1.25)
        self.assertLess(ours.low, ours.high)
        self.assertIn("hpcc HPL", programs.app_values([row | {"app": "hpcc", "part": "HPL"}], "ratio", 8))
        self.assertEqual(programs.app_values([row], "sizes", 8)["is below 1K"].median, 60)
        self.assertEqual(programs.app_values([row | {"mpi_ratio": spread}], "mpi_ratio", 8)["is"], ours)
        row["size_table"]["below"] = {"2048": 9, "8192": 4, str(8 << 20): 2, str(32 << 20): 1}
        counts = {name: found.median for name, found in programs.app_values([row], "counts", 2).items()}
        self.assertEqual(counts, {"is 1K-8K": 13, "is 4M-16M": 2, "is 16M-64M": 1})
        calls = {"MPI_Alltoallv": {"calls": 22, "bytes": 22 * (16 << 20)}, "MPI_Win_fence": {"calls": 1, "bytes": 0}}
        row["size_table"]["calls"] = calls | {"MPI_Allreduce": {"calls": 28, "bytes": 28 * 3236}}
        counts = {name: found.median for name, found in programs.app_values([row], "counts", 2).items()}
        self.assertEqual(counts, {"is 1K-8K": 13 + 28, "is 4M-16M": 2 + 22, "is 16M-64M": 1}, "collectives as messages")
        shares = {name: found.median for name, found in programs.app_values([row], "sizes", 8).items()}
        self.assertAlmostEqual(shares["is 1K-32K"], 100 * (10 + 3 * 28) / (50 + 3 * 28 + 7 * 22))
        del row["size_table"]["calls"]
        row["size_table"]["messages"] = {"<1K": 0, ">=1M": 0}
        self.assertEqual(programs.app_values([row], "sizes", 8), {}, "shares of no messages")


class Models(unittest.TestCase):
    def test_one_kind_of_cost_changes_and_a_link_stays_within_its_network_time(self):
        lab = measure.Lab(ZEROHOP)
        profile = json.loads(lab.run("tune", "--profile", "gigabit-like"))
        for kind, key in (("o", "overhead"), ("o_net", "network"), ("link", "link")):
            for factor in (0.5, 2.0):
                changed = simulate.scaled(profile, kind, factor)
                for level in changed["levels"].values():
                    for (_, link), (_, network) in zip(level.get("link", []), level.get("network", []), strict=True):
                        self.assertLessEqual(link, network)
                before, after = (p["levels"]["inter-node"] for p in (profile, changed))
                self.assertEqual({k for k in before if before[k] != after[k]} - {"link"}, {key} - {"link"})
                if kind != "link":
                    self.assertEqual(after[key][1], [before[key][1][0], factor * before[key][1][1]])
                else:
                    self.assertNotEqual(after[key], before[key])
        changed = simulate.scaled(profile, simulate.MEMORY, 2)
        (before,), (after,) = (p["contention"] for p in (profile, changed))
        self.assertEqual([after["us"][0], after["us"][-1]], [[1, 1.0], [8, 3.0]], before["us"])
        self.assertEqual(changed["levels"], profile["levels"])
        del profile["contention"]
        self.assertIsNone(simulate.scaled(profile, simulate.MEMORY, 2))

    def test_gains_are_those_of_plain_walks_over_the_fastest_old_algorithm(self):
        old = ("linear", "binomial")
        args = BY_ID["ml-8-model"].args | {"nodes": 2, "ranks": 2, "before": old, "team": True}
        lab = measure.Lab(ZEROHOP)
        made = simulate.model(lab, replace(BY_ID["ml-8-model"], args=args | {"cases": ((1 << 20, 8192),)}))

        def walk(*words):
            out = lab.run(
                "schedule", "bcast", "--nodes", "2", "-r", "4", "-b", "1M", *words, "-p", "gigabit-like", "--json"
            )
            return json.loads(out)["costs"]["models"][-1]["walk_us"]

        before = min(sum(walk("-a", name, "--root", str(r)) for r in (0, 1)) for name in old)
        after = sum(walk("-a", "hierarchical", "-c", "8K", "--team", "--root", str(r)) for r in (0, 1))
        self.assertAlmostEqual(made.findings[0].ours.median, before / after)
        beyond = "beyond the profile's tables"
        titles = [f"2x2, ranks in {how}; {beyond}: 1M" for how in ("blocks", "turn")]
        self.assertEqual(([p.title for p in made.panels], made.findings[0].note), (titles, beyond))
        self.assertIn("stays in 2 of 6 changes", made.notes[-1])

    def test_costs_that_change_no_walk_do_not_count(self):
        args = BY_ID["ml-8-model"].args | {"nodes": 1, "before": ("binomial",), "team": True, "any_root": False}
        made = simulate.model(measure.Lab(ZEROHOP), replace(BY_ID["ml-8-model"], args=args))
        self.assertLessEqual({"o_net: changes no walk", "link: changes no walk"}, set(made.notes))
        self.assertIn("stays in 4 of 4 changes", made.notes[-1])


class Costs(unittest.TestCase):
    """Figures of a measured profile, which is the built-in one here."""

    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.mpi = FakeMpi(Path(name.name), ZEROHOP)
        self.mpi.place("n")
        self.lab = measure.Lab(ZEROHOP, where=tuple(self.mpi.host))
        self.profile = json.loads(self.lab.run("tune", "--profile", "gigabit-like"))
        tuned, programs.tuned = programs.tuned, lambda *_: [self.profile] * 6
        self.addCleanup(setattr, programs, "tuned", tuned)

    def findings(self, name):
        return {f.what: f for f in store.MAKERS[BY_ID[name].make](self.lab, BY_ID[name]).findings}

    def test_costs_between_nodes_are_compared_with_those_inside(self):
        """The built-in profile has the paper's shares."""
        found = list(self.findings("ml-2").values())
        for finding, percent in zip(found, (49.2, 87.9, 41), strict=True):
            self.assertAlmostEqual(finding.ours.median, percent, delta=0.5, msg=finding.what)
            self.assertEqual((judge(finding).state, finding.ours.count), (HOLDS, 6))
        self.profile["levels"]["inter-node"]["overhead"] = self.profile["levels"]["intra-cmp"]["overhead"]
        self.assertEqual(judge(next(iter(self.findings("ml-2").values()))).state, FAILS)

    def test_errors_are_of_predictions_beside_measured_shapes(self):
        error, beaten = self.findings("ml-3").values()
        self.assertEqual((error.ours.count, error.is_gain, beaten.is_gain), (6, False, True))
        self.assertEqual({x["args"][x["args"].index("-n") + 1] for x in self.mpi.launches()}, {"4"})
        # The launcher's 2 µs and node for four: three ends of 3.212 µs in it; 4 of 5.2 and 28.75 between nodes.
        ours, theirs = 3 * 3.212 / 2 - 1, (4 * 5.2 + 28.75) / 2 - 1
        self.assertAlmostEqual(error.ours.median, 100 * ours)
        self.assertAlmostEqual(beaten.ours.median, theirs / ours)
        self.assertEqual(judge(error).state, FAILS)
        self.profile["processors_per_node"] = 2
        with self.assertRaisesRegex(measure.Unavailable, "more ranks than processors"):
            self.findings("ml-3")

    def test_readers_at_once(self):
        run, machine = self.lab.run, {"cores": 8, "cpus": 16, "l3_caches": 2, "l2_caches": 8}
        self.lab.run = lambda *words: json.dumps({"machine": machine}) if words[0] == "info" else run(*words)
        self.profile["processors_per_node"] = 16
        one = {"way": "mapped", "bytes": 16384, "us": [[1, 2.0], [2, 2.1], [4, 2.2], [8, 9.0]]}
        self.profile["contention"] = [one | {"bytes": 65536, "us": [[1, 2.0], [4, 9.0]]}, one]
        readers, step = self.findings("cc-2a").values()
        self.assertAlmostEqual(readers.ours.median, 1.1)
        self.assertAlmostEqual(step.ours.median, 9 / 2.2)
        self.assertEqual((judge(readers).state, readers.ours.count), (HOLDS, 6))
        del self.profile["contention"][1]
        with self.assertRaisesRegex(measure.Unavailable, "16 KiB"):
            self.findings("cc-2a")  # of another size it tells nothing


class Schedules(unittest.TestCase):
    def test_series_of_one_schedule_are_refused(self):
        lab = measure.Lab(ZEROHOP)
        for name, same in (("binomial", True), ("hierarchical", False)):
            arms = (algorithm("bcast", name, "0", "whole"), algorithm("bcast", name, "8K", "tile 8K"))
            bench = Bench(("coll", "--only", "bcast"), arms, ("1x8",), "64K")
            found = measure.same_schedules(measure.one_schedule(lab, bench))
            self.assertEqual(found, [("tile 8K", "whole")] if same else [], name)
        figure = replace(BY_ID["ml-6"], bench=(replace(bench, arms=arms * 2, sizes="4K"),))
        with self.assertRaisesRegex(measure.Broken, "one schedule"):
            measure.bench_figure(lab, figure)

    def test_sizes_at_which_two_series_are_one_schedule_do_not_count(self):
        arms = (algorithm("bcast", "hierarchical", "0", "whole"), algorithm("bcast", "hierarchical", "8K", "tile 8K"))
        bench = Bench(("coll", "--only", "bcast"), arms, ("1x8",), "8K,64K")
        alike = measure.one_schedule(measure.Lab(ZEROHOP), bench)
        self.assertEqual(alike, {8192: [{"whole", "tile 8K"}], 65536: []})
        self.assertEqual(measure.same_schedules(alike), [])
        points = {"whole": {8192: {0: 1.0}, 65536: {0: 1.0}}, "tile 8K": {8192: {0: 0.1}, 65536: {0: 0.5}}}
        table = measure.Table("x", to_host=points, alike=alike)
        self.assertEqual(table.gains("tile 8K", "whole"), {65536: {0: 2.0}})


class Commands(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = Path(name.name)
        self.mpi = FakeMpi(self.folder, ZEROHOP)
        self.mpi.place("n")
        self.lab = measure.Lab(ZEROHOP, quick=True, where=tuple(self.mpi.host))

    def reproduce(self, *words):
        bench = " ".join(self.mpi.host[2:])
        where = ["--mpiexec", self.mpi.host[1], "--bench", bench, "--folder", str(self.folder / "kept"), "--quick"]
        return self.mpi.run("reproduce", *words, *where, timeout=110)

    def test_each_figures_command_is_accepted_and_launches_its_arms(self):
        for figure in FIGURES:
            for bench in figure.bench:
                if bench.pair:
                    continue  # which processors are a pair is the machine's
                self.assertEqual(measure.same_schedules(measure.one_schedule(self.lab, bench)), [], figure.id)
                self.mpi.place("n")
                r = self.mpi.run(*measure.bench_words(self.lab, bench))
                self.assertEqual(r.returncode, 0, f"{figure.id}: {r.stderr}")
                self.check_arms(figure, bench, self.mpi.launches())

    def check_arms(self, figure, bench, launches):
        seen = {json.dumps([x["variables"], x["settings"]], sort_keys=True) for x in launches if x["zerohop"]}
        wanted = set()
        for arm in bench.arms:
            options = dict(part.split("=", 1) for part in arm.options.split(",") if part)
            short = {"heap": "ZEROHOP_HEAP", "cma": "ZEROHOP_CMA"}
            options = {short.get(k, k): v for k, v in options.items()}
            variables = {k: v for k, v in options.items() if k.isupper()}
            settings = {k: v for k, v in options.items() if k not in variables}
            wanted.add(json.dumps([variables, settings], sort_keys=True))
        self.assertEqual(seen, wanted, figure.id)
        self.assertEqual(len(wanted), len(bench.arms), f"{figure.id}: arms that are set alike")
        ranks = {int(x["args"][x["args"].index("-n") + 1]) for x in launches}
        layouts = [layout.removesuffix(":turn").split("x") for layout in bench.layouts]
        if layouts:
            self.assertEqual(ranks, {int(n) * int(r) for n, r in layouts}, figure.id)

    def test_a_figure_is_made_judged_and_kept(self):
        out = self.folder / "out.json"
        r = self.reproduce("limic-10", "--json", str(out))
        (result,) = json.loads(out.read_text())["figures"]
        self.assertEqual(result["state"], OPEN, "two rounds resolve nothing")
        self.assertEqual({*result["panels"][0]["series"]}, {"host", SHARED.name, KERNEL.name, HYBRID.name})
        self.assertIn("limic-10 not resolved here", r.stdout)
        self.assertIn("LiMIC paper (ICPP 2005), figure 10", r.stdout)

    def test_it_goes_on_where_it_was_interrupted(self):
        self.assertEqual(self.reproduce("limic-10").returncode, 0)
        self.mpi.place("n")
        r = self.reproduce("limic-10", "limic-13")
        self.assertEqual({x["only"] for x in self.mpi.launches()}, {"alltoall"}, "what is kept is not run again")
        self.assertIn("limic-10 not resolved here", r.stdout)
        self.mpi.place("n")
        self.reproduce("limic-10", "--fresh")
        self.assertEqual({x["only"] for x in self.mpi.launches()}, {"latency"})

    def test_an_interrupted_run_keeps_whole_figures_alone_and_ends_its_jobs(self):
        self.mpi.place("s")
        command = [ZEROHOP, "reproduce", "limic-10", "limic-11", "--folder", str(self.folder / "kept"), "--mpiexec",
                   self.mpi.host[1], "--bench", " ".join(self.mpi.host[2:])]  # fmt: skip
        job = subprocess.Popen(command, env=self.mpi.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)  # fmt: skip
        deadline = time.monotonic() + 60
        while "bandwidth" not in {x["only"] for x in self.mpi.launches()} and time.monotonic() < deadline:
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, said)
        self.assertIn("goes on from here", said)
        self.assertEqual([p.name for p in (self.folder / "kept").iterdir()], ["limic-10.json"])
        self.assertFalse(Path(f"/proc/{self.mpi.launches()[-1]['pid']}").exists(), "the launcher is in its own group")
        self.assertEqual(list(self.folder.glob("zerohop-bench-*")), [])

    def test_a_command_that_fails_is_told_and_the_others_are_made(self):
        self.mpi.place("x")
        r = self.reproduce("limic-10", "hybrid-11")
        self.assertEqual(r.returncode, 1)
        self.assertIn("limic-10:", r.stderr)
        self.assertIn("hybrid-11: not possible here", r.stdout)
        self.assertFalse((self.folder / "kept" / "limic-10.json").exists())

    def test_what_a_build_or_machine_lacks_is_no_failure(self):
        for words, why in ((("no_such",), "not in this build"), (("p2p", "--arm", "a:no_such=1"), "no_such")):
            with self.assertRaisesRegex(measure.Unavailable, why):
                self.lab.run("bench", *words)
        with self.assertRaisesRegex(measure.Broken, "exit code 2"):
            self.lab.run("bench", "coll", "--sizes", "12")
        said = self.folder / "said"
        said.write_text("#!/bin/sh\necho 'rank 1: a message not expected' >&2\nexit 1\n")
        said.chmod(0o755)
        with self.assertRaisesRegex(measure.Broken, "exit code 1"):
            measure.Lab(str(said)).run("bench")
        with self.assertRaises(measure.Broken):
            programs.tuned(measure.Lab(str(said)))  # a command that failed

    def test_another_launcher_reaches_every_command_or_is_refused(self):
        self.lab.repeated = lambda *words: words
        self.assertEqual(programs.tuned(self.lab)[1 : 1 + len(self.mpi.host)], tuple(self.mpi.host))
        for name in ("hybrid-9a", "ml-2"):
            with self.assertRaisesRegex(measure.Unavailable, "--mpiexec"):
                store.MAKERS[BY_ID[name].make](self.lab, BY_ID[name])

    def test_a_figure_that_breaks_does_not_end_the_others(self):
        broken = replace(BY_ID["limic-10"], make="no such maker")
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            kept = store.Store(self.folder, self.lab)
            results, failed = command.make(self.lab, [broken, BY_ID["hybrid-11"]], kept, fresh=True)
        self.assertEqual((list(results), failed), (["hybrid-11"], 1))
        self.assertIn("limic-10: KeyError", said.getvalue())

    def test_a_folder_that_cannot_be_is_told_first(self):
        kept = store.Store(self.folder / "kept", self.lab)
        self.addCleanup(os.close, kept.held)
        elsewhere = (self.mpi.run("reproduce", "limic-10", option, "/dev/null/x") for option in ("--folder", "--svg"))
        for r in (self.reproduce("limic-10"), *elsewhere):
            self.assertEqual((r.returncode, self.mpi.launches()), (2, []), r.stderr)
            self.assertRegex(r.stderr, "another run uses|nothing could be kept: .*/dev/null/x")

    def test_results_of_another_library_do_not_count(self):
        (self.folder / "lib").mkdir()
        kept = store.Store(self.folder, measure.Lab(str(self.folder / "bin" / "zerohop"), where=("--mpiexec", "none")))
        before = kept.key(BY_ID["limic-10"])
        (self.folder / "lib" / "libzerohop.so").write_text("a")
        del kept.build
        self.assertNotEqual(kept.key(BY_ID["limic-10"]), before)
        os.close(kept.held)

    def test_wrong_words_are_refused(self):
        for words, said in (
            (("cc-9",), "no such figure: cc-9"),
            ((), "--list"),
            (("--no-such",), "--no-such"),
            (("--list", "--json", "x.json"), "--list writes no file"),
            (("ml-1", "--profile", "nope"), "no profile nope"),
            (("ml-1", "--bench", "'x"), "--bench: 'x: No closing quotation"),
        ):
            r = self.reproduce(*words)
            self.assertEqual((r.returncode, r.stdout), (2, ""), words)
            self.assertIn(said, r.stderr)
        r = self.mpi.run("reproduce", "ml-1", "--under", "foo")
        self.assertEqual((r.returncode, "no MPI library foo here (there are: " in r.stderr), (2, True), r.stderr)

    def test_the_list_tells_of_each_and_runs_nothing(self):
        r = self.reproduce("--list")
        self.assertEqual((r.returncode, self.mpi.launches()), (0, []), r.stderr)
        for f in FIGURES:
            self.assertRegex(r.stdout, rf"(?m)^{re.escape(f.id)} +{f.kind}")
        self.assertEqual(r.stdout.count("why: "), sum(f.kind == IMPOSSIBLE for f in FIGURES))

    def test_messages_are_counted_in_the_file_of_statistics(self):
        sent = {"by_path": {"inline": [], "cma": [{"below_bytes": 131072, "messages": 7, "bytes": 458752}]}}
        sent["by_size"] = [{"size": "<1K", "messages": 3, "bytes": 24}, {"size": "32K-1M", "messages": 7, "bytes": 9}]
        for rank in (0, 1):
            document = {"ranks": [{"rank": rank, "sent": sent, "calls": []}]}
            (self.folder / f"{rank}.json").write_text(json.dumps(document))
        self.assertEqual(misses.messages(self.folder), 20)

    def test_counters_that_are_missing_make_no_number(self):
        bin_ = self.folder / "bin"
        bin_.mkdir()
        (bin_ / "perf").write_text("#!/bin/sh\necho '<not supported>,,cache-misses' >&2\n")
        (bin_ / "perf").chmod(0o755)
        with mock.patch("shutil.which", lambda _: str(bin_ / "perf")):
            with self.assertRaisesRegex(measure.Unavailable, "hardware counters"):
                misses.countable()
            (bin_ / "perf").write_text("#!/bin/sh\necho '12,,l2_rqsts.miss' >&2\n")
            self.assertEqual(misses.countable(), "l2_rqsts.miss")


def result_of(figure, state=HOLDS):
    points = [[1024, vars(interval(1, 2, 3))], [65536, vars(interval(4, 5, 6))]]
    panel = {"title": "near <b>", "x": "bytes", "y": "µs", "series": {"host": points, HYBRID.name: points}}
    finding = {"what": "gain", "paper": [2, 2], "paper_text": "2", "ours": vars(interval(1, 2, 3)), "state": state,
               "because": "2 for 2", "beyond": False}  # fmt: skip
    return {"id": figure.id, "kind": RUN, "why": "", "state": state, "findings": [finding], "panels": [panel],
            "notes": ["a note"], "svg": "", "commands": [["bench", "p2p"]], "date": "2026-01-01"}  # fmt: skip


class Shown(unittest.TestCase):
    def test_the_closing_table_has_paper_here_and_holds(self):
        figures = [BY_ID["limic-10"], BY_ID["hybrid-11"], BY_ID["hybrid-1"], BY_ID["ml-7"]]
        results = {"limic-10": result_of(figures[0])}
        for f in figures[1:3]:
            results[f.id] = result_of(f) | {"kind": f.kind, "findings": [], "panels": [], "why": f.here}
        table = show.closing_rows(figures, results)
        self.assertEqual([row[0] for row in table[1:]], ["limic-10", "hybrid-11", "ml-7"], "a drawing has no number")
        self.assertEqual(table[1][2:], ["2", "2 [1, 3]", HOLDS])
        self.assertEqual(table[3][-1], show.FAILED)
        self.assertIn("holds: 1, does not hold: 0, not resolved here: 0, not possible here: 1, failed: 1",
                      show.closing_text(figures, results))  # fmt: skip

    @unittest.skipIf(importlib.util.find_spec("jinja2") is None, "needs jinja2")
    def test_the_page_refers_to_nothing_outside(self):
        figure = BY_ID["limic-10"]
        whole = page.page([figure], {figure.id: result_of(figure)}, "about")
        self.assertIn("near &lt;b&gt;", whole)
        self.assertIn(show.finding_text(result_of(figure)["findings"][0]), whole)
        outside = re.findall(r"""(?:src|href|xlink:href)=["'](?!#)[^"']*|url\((?!#)[^)]*|@import[^;]*""", whole)
        self.assertEqual(outside, [])
        if importlib.util.find_spec("matplotlib"):
            self.assertIn("<svg", whole)

    def test_less_time_is_a_gain(self):
        self.assertAlmostEqual(less(50), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
