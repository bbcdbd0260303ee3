"""Checks `zerohop report` and `zerohop compare`: reading and joining, numbers, sentences, text, JSON, refusals. How the
pages look in a browser: tests/report/pages.py.

Usage: check_report.py <zerohop>
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
import fake_statistics
from zerohop.report import (
    MEASURE,
    advice,
    compare,
    considered,
    document,
    matrix,
    predicted,
    rules,
    sections,
    text,
    timeline,
)
from zerohop.report.summary import summary_of

ZEROHOP = sys.argv[1]
HAS_PAGES = all(importlib.util.find_spec(name) for name in ("plotly", "jinja2"))


class InFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def write(self, name, made):
        (self.folder / name).write_text(json.dumps(made) if isinstance(made, dict) else made)
        return str(self.folder / name)

    def summary(self, **how):
        return summary_of(document.join([self.write("s.json", fake_statistics.document(**how))]))

    def lines(self, s):
        return "\n".join(line["text"] for line in rules.lines_of(s))

    def run_it(self, *words, **environment):
        return subprocess.run([ZEROHOP, *words], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **environment}, check=False)  # fmt: skip


class Reading(InFolder):
    def test_files_of_ranks_make_the_job_that_one_file_makes(self):
        whole = fake_statistics.document(4, 2, "all")
        for n, rank in enumerate(whole["ranks"]):
            self.write(f"r-{n}.json", whole | {"ranks": [rank]})
        parts = summary_of(document.join([str(self.folder / "r-*.json")]))
        self.assertEqual(parts, self.summary(ranks=4, per_node=2, pattern="all"))

    def test_a_job_ended_as_the_worst_of_its_files_says(self):
        whole = fake_statistics.document()
        for n, rank in enumerate(whole["ranks"]):
            ended = {"end": "a rank died", "dead_ranks": [3]} if n == 2 else {}
            self.write(f"r-{n}.json", whole | {"ranks": [rank]} | ended)
        s = summary_of(document.join([str(self.folder / "r-*.json")]))
        self.assertIn("lost 1 rank: 3", self.lines(s))

    def test_what_is_no_statistics_is_refused_with_the_file_and_what_to_do(self):
        good = self.write("good.json", fake_statistics.document())
        other = self.write("other.json", fake_statistics.document(job="2"))
        for paths, said in (
            ([self.write("cut.json", '{"schema": 1, "ra')], "cut.json: no JSON"),
            ([self.write("list.json", "[1]")], "no statistics of zerohop"),
            ([self.write("new.json", fake_statistics.document(schema=2))], "schema 2; this command reads 1"),
            ([str(self.folder / "none.json")], "No such file"),
            ([good, other], "two jobs"),
            ([good, self.write("again.json", fake_statistics.document())], "both have rank 0"),
        ):
            with self.assertRaisesRegex(document.Refused, said):
                document.join(paths)
            r = self.run_it("report", *paths)
            self.assertEqual((r.returncode, r.stdout), (2, ""), r.stderr)
            self.assertRegex(r.stderr, f"^zerohop report: .*{said}")

    def test_any_key_may_be_missing_or_wrong(self):
        """Each key of a document taken away or replaced, one after the other."""
        whole = fake_statistics.document(3, 2)

        def places(tree, way=()):
            for key in tree if isinstance(tree, dict) else range(min(len(tree), 2)) if isinstance(tree, list) else ():
                yield (*way, key)
                yield from places(tree[key], (*way, key))

        for way in places(whole):
            if way[0] in ("schema", "ranks") and len(way) == 1:
                continue
            for wrong in (None, "x", -1, 1e300, [None], {"x": [1]}):
                copy = json.loads(json.dumps(whole))
                at = copy
                for key in way[:-1]:
                    at = at[key]
                at[way[-1]] = wrong
                if wrong is None and isinstance(at, dict):
                    del at[way[-1]]
                try:
                    s = summary_of(document.join([self.write("w.json", copy)]))
                    rules.lines_of(s), sections.sections_of(s), json.dumps(s, allow_nan=False)
                except document.Refused:
                    pass
                except Exception as why:
                    raise AssertionError(f"{way}: {wrong}: {type(why).__name__}: {why}") from why

    def test_older_files_tell_nodes_by_index(self):
        for indexes, nodes in (("0101", [0, 0, 1, 1]), ("0011", [0, 1, 0, 1])):
            ranks = {n: {"node_index": int(i), "node_ranks": 2} for n, i in enumerate(indexes)}
            self.assertEqual([*document.nodes_by_index(ranks).values()], nodes)
        sizes = {n: {"node_index": i, "node_ranks": size} for n, (i, size) in enumerate([(0, 1), (0, 2), (1, 2)])}
        self.assertEqual([*document.nodes_by_index(sizes).values()], [0, 1, 1])


class Numbers(InFolder):
    def test_the_matrix_has_every_pair_and_borders_between_nodes(self):
        m = self.summary(ranks=8, per_node=4, pattern="all")["matrix"]
        self.assertEqual((len(m["cells"]), m["node_borders"], m["socket_borders"]), (56, [4], [2, 6]))
        ranks = fake_statistics.document(8, 4, "all")["ranks"]
        self.assertEqual(m["bytes"], sum(p["bytes"] for r in ranks for p in r["peers"]))

    def test_many_ranks_are_joined_to_blocks_that_hold_the_same_sums(self):
        s = self.summary(ranks=1000, per_node=10, pattern="grid")
        m = s["matrix"]
        self.assertLessEqual(len(m["blocks"]), matrix.MOST_BLOCKS)
        self.assertEqual((m["ranks_per_block"], m["blocks"][1], m["node_borders"][:2]), (4, "4-7", [2.5, 5]))
        self.assertEqual(sum(c[3] for c in m["cells"]), m["bytes"])

    def test_ranks_dealt_out_to_nodes_are_put_together(self):
        made = fake_statistics.document(4, 2)
        for n, rank in enumerate(made["ranks"]):
            rank |= {"node": n % 2, "socket": 0}
        m = summary_of(document.join([self.write("s.json", made)]))["matrix"]
        self.assertEqual((m["blocks"], m["node_borders"]), (["0", "2", "1", "3"], [2]))

    def test_time_is_calls_waits_and_the_rest(self):
        s = self.summary(ranks=4)
        t = s["time"]
        self.assertAlmostEqual(t["mpi_s"], sum(c["seconds"] for c in t["calls"]))
        self.assertAlmostEqual(t["mpi_s"], t["moving_s"] + sum(w["seconds"] for w in t["waits"].values()))
        self.assertAlmostEqual(t["mpi_s"] + t["outside_s"], 4 * 40)

    def test_what_a_profile_predicts_stands_beside_what_was_measured(self):
        made = fake_statistics.document(16, 8, "grid")
        for rank in made["ranks"]:
            rank["calls"].append({"call": "MPI_Bcast", "ranks": 16, "by": "binomial", "calls": 10, "bytes": 10 << 12})
            rank["time"]["calls"].append({"call": "MPI_Bcast", "calls": 10, "seconds": 0.01})
        s = summary_of(document.join([self.write("s.json", made)]))
        self.assertIn("No profile", sections.predicted_section(s)["notes"][0])
        predicted.add_predicted(s, ZEROHOP, "gigabit-like")
        messages, bcast = s["predicted"]["sums"]  # none of a team, of the host
        calls = sum(c["seconds"] for c in s["time"]["calls"] if c["call"] in ("MPI_Recv", "MPI_Waitall", "MPI_Send"))
        waits = s["time"]["waits"]
        self.assertAlmostEqual(messages["measured_s"], calls - sum(waits[kind]["seconds"] for kind in predicted.WAITS))
        self.assertEqual(messages["calls"], s["sent"]["messages"])
        words = ("schedule", "bcast", "-a", "binomial", "--nodes", "2", "-r", "16", "-b", "4K", "-p", "gigabit-like")
        costs = considered.ask(ZEROHOP, *words, "--no-steps")["costs"]
        self.assertAlmostEqual(bcast["predicted_s"], costs["models"][-1]["walk_us"] * 160 / 1e6)
        self.assertAlmostEqual(bcast["measured_s"], 0.16)
        self.assertRaises(document.Refused, predicted.add_predicted, s, ZEROHOP, "/no/such")

    def test_what_else_was_considered_is_asked_of_the_command(self):
        s = self.summary(ranks=4, per_node=4)
        considered.add_considered(s, ZEROHOP)
        allreduce = next(c for c in s["collectives"] if c["call"] == "MPI_Allreduce")
        self.assertIn("recursive-doubling", allreduce["candidates"])
        self.assertRegex(allreduce["in_force"], r"^[\w-]+ \(\w+\)$")
        names = {"MPI_Iallgatherv": "allgather", "MPI_Ireduce_scatter_block": "reduce_scatter", "other": "",
                 "MPI_Neighbor_allgather": "", "MPI_Bcast_init": "bcast", "MPI_Alltoallw": "alltoall"}  # fmt: skip
        self.assertEqual({n: considered.collective_of(n) for n in names}, names)


class Sentences(InFolder):
    def test_gains_are_bounds_that_follow_from_the_numbers(self):
        said = self.lines(self.summary(ranks=4))
        self.assertIn("Faster messages alone can gain 2.85 s at most", said)  # 40 s but for rank 3's 37.1 s outside
        self.assertIn("Ranks waited 2.97 s in the mean for messages that were sent late, rank 0", said)
        self.assertLessEqual(len(said.splitlines()), rules.MOST_LINES)
        for line in rules.lines_of(self.summary(ranks=4)):
            self.assertTrue(line["rests_on"], line)

    def changed(self, change, **how):
        made = fake_statistics.document(**how)
        for rank in made["ranks"]:
            change(rank)
        return summary_of(document.join([self.write("s.json", made)]))

    def test_polling_is_not_told_as_moving(self):
        def change(rank):
            rank["time"]["calls"].append({"call": "MPI_Testany", "calls": 10**6, "seconds": 20.0})

        s = self.changed(change)
        self.assertEqual([r["polling_s"] for r in s["time"]["ranks"]], [20.0] * 4)
        self.assertAlmostEqual(s["time"]["moving_s"], self.summary()["time"]["moving_s"])
        self.assertIn("Ranks polled 20.0 s in the mean, by 4,000,000 calls, most MPI_Testany", self.lines(s))
        self.assertIn("MPI_Recv took", self.lines(s), "not the call that polls")

    def test_balance_gains_no_more_than_others_are_outside_of_mpi(self):
        def change(rank):
            rank["time"]["wall_s"] = 12.0

        self.assertRegex(self.lines(self.changed(change)), r"late, rank 0 .*That can gain 2\.97 s at most")
        said = self.lines(self.changed(lambda r: (change(r), r["time"]["waits"]["for_message"].update(seconds=40.0))))
        self.assertRegex(said, r"waited 40\.0 s .*others were outside MPI for 18\.2 s of that at most")

    def test_calls_of_one_rank_are_nobodys_loss(self):
        alone = {"call": "MPI_Bcast", "ranks": 1, "by": "host", "calls": 10**6, "bytes": 8}
        rest = {"call": "MPI_Bcast", "ranks": 4, "by": "team", "calls": 900, "bytes": 8}
        s = self.changed(lambda rank: rank["calls"].extend([alone, rest]))
        self.assertNotIn("The MPI library served", self.lines(s))

    def test_other_programs_stand_before_what_their_time_is_in(self):
        said = self.lines(self.changed(lambda rank: rank.update(shared_cpu=2))).splitlines()
        self.assertRegex(
            said[1], r"other programs wanted the processor of 2 ranks \(2 times\) and a peer .* \(8 times\)"
        )
        said = self.lines(self.changed(lambda rank: rank["time"].update(without_processor_s=2.0 + rank["rank"])))
        self.assertRegex(said.splitlines()[1], r"no processor for 3\.50 s in the mean, rank 3 the longest \(5\.00 s\)")

    def test_large_messages_copied_twice_are_no_fault_where_others_went_straight(self):
        def change(rank):
            rank["sent"]["by_path"]["cells"] = [{"below_bytes": 1 << 21, "messages": 90, "bytes": 90 << 20}]
            rank["skew"]["messages_through_cells"] = 0

        self.assertIn("two copies for the faster way", self.lines(self.changed(change, ranks=16, pattern="all")))
        nothing = {"by_path": {}, "by_size": []}
        self.assertIn("`zerohop doctor` says", self.lines(self.changed(lambda r: (r.update(sent=nothing), change(r)))))

    def test_without_measured_time_the_line_says_what_would_tell(self):
        for how in ({"measured": False}, {"measured": False, "old": True}):
            s = self.summary(**how)
            self.assertIn(f"run with `{MEASURE}`", self.lines(s))
            self.assertNotIn("at most", self.lines(s))
            shown = {x["id"]: x["notes"] for x in sections.sections_of(s)}
            self.assertEqual([*shown["time"], *shown["waits"]], [sections.NOT_MEASURED] * 2)

    def test_jobs_of_no_rank_and_jobs_that_did_not_end_are_told(self):
        self.assertIn("No rank has told anything", self.lines(self.summary(ranks=0)))
        self.assertIn("was killed since", self.lines(self.summary(end="running", measured=False)))
        ended = self.summary(end="MPI_Abort", abort_rank=2, abort_code=7)
        self.assertIn("ended by MPI_Abort in rank 2 (code 7)", self.lines(ended))
        early = self.changed(lambda r: r.update(calls=[], sent={}, time={"wall_s": 0.4, "calls": []}), end="MPI_Abort")
        self.assertNotRegex(self.lines(early), "No message and no collective|MPI took", "not of a job that ended early")

    def test_each_reason_of_the_library_has_advice(self):
        source = Path(__file__).parents[3] / "src"
        files = [*(source / "mpi").rglob("*.cpp"), *(source / "mpi").rglob("*.h"), source / "engine/counters_json.cpp"]
        told = r'"((?:started )?collectives(?: of neighbours)?:[^"]+|messages: [^"]+|single copy by [^"]+)"'
        found = {reason for f in files for reason in re.findall(told, f.read_text())}
        self.assertGreater(len(found), 7)
        self.assertEqual({r for r in found if advice.for_fallback(r) == advice.UNKNOWN}, set())


class Shown(InFolder):
    def test_text_keeps_to_the_width_and_json_has_the_same_lines(self):
        name = self.write("s.json", fake_statistics.document())
        for columns in (40, 60, 100):
            r = self.run_it("report", name, "--text", COLUMNS=str(columns), NO_COLOR="1")
            self.assertLessEqual(max(map(len, r.stdout.splitlines())), columns)
            self.assertNotIn("\033", r.stdout)
        made = json.loads(self.run_it("report", name, "--json").stdout)
        self.assertIn(made["lines"][0]["text"].split(".")[0], r.stdout.replace("\n    ", " "))

    def test_no_name_steers_the_terminal(self):
        job = {"command": ["./\x1b[31mapp", "\x7f", "C:\\new"], "host_version": "\x9b1m"}
        name = self.write("s.json", fake_statistics.document(**job))
        Path(name).write_text(json.dumps(json.loads(Path(name).read_text()), ensure_ascii=False))
        for words in (["report", name, "--text"], ["compare", name, name]):
            said = self.run_it(*words, COLUMNS="200").stdout
            self.assertEqual([c for c in said if not c.isprintable() and c != "\n"], [])
            self.assertIn(r"\u001b[31mapp \u007f C:\new: ", said)

    def test_numbers_are_told_in_units(self):
        times = ((0, "0 s"), (37.14, "37.1 s"), (2e-6, "2.00 µs"), (0.9999, "1.00 s"), (2345, "2,345 s"), (None, "-"))
        others = ((1 << 64, "bytes", "16.0 EiB"), (1e-9, "share", "<0.1 %"), ((3, "three"), "count", "three"))
        for value, unit, said in (*((t, "s", said) for t, said in times), *others):
            self.assertEqual(text.shown(value, unit), said)

    def test_a_timeline_shows_the_latest_calls_and_the_messages_between_them(self):
        call = {"ph": "X", "cat": "call", "name": "MPI_Send", "dur": 1}
        events = [call | {"pid": i % 2, "ts": i} for i in range(4000)]
        for ph, rank, ts in (("s", 0, 3998.2), ("f", 1, 3999.5)):
            at = {"pid": rank, "ts": ts, "cat": "message", "args": {"bytes": 8, "way": "inline"}}
            events += [at | {"ph": "X", "name": "send inline"}, at | {"ph": ph, "id": "0x1"}]
        events.append({"ph": "M", "pid": 0, "name": "process_name", "args": {"lost": 7}})
        shown = timeline.timeline_section(Path(self.write("t.json", {"traceEvents": events})))
        picture, (rows,) = shown["pictures"][0], [t["rows"] for t in shown["tables"]]
        self.assertEqual(len(picture["series"]["MPI_Send"]), timeline.MOST_SLICES)
        self.assertEqual(picture["choices"]["calls and messages"], [[2998.2, 0, 2999.5, 1]])
        self.assertEqual([row[:3] for row in rows], [["inline", 1, 8]])
        self.assertIn("7 earlier events", " ".join(shown["notes"]))
        for wrong in ("{", "[]", '{"traceEvents": [3]}'):
            self.assertEqual(timeline.timeline_section(Path(self.write("t.json", wrong)))["pictures"], [], wrong)

    def test_the_page_is_written_or_the_package_named(self):
        name = self.write("s.json", fake_statistics.document())
        r = self.run_it("report", name)
        self.assertIn("MPI took", r.stdout)
        self.assertEqual((r.returncode, (self.folder / "s.html").exists()), (0, True) if HAS_PAGES else (1, False))
        self.assertIn("the page is s.html" if HAS_PAGES else "pip install plotly jinja2", r.stderr)
        r = self.run_it("report", name, "-o", "/dev/null/x.html")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
        r = self.run_it("report", name, "--svg", name)
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn(f"{name}: File exists. Name another folder with --svg", r.stderr)

    def test_a_program_without_statistics_may_have_had_one_rank_or_no_mpi(self):
        r = self.run_it("report", "--after", "999999999", "none.json")
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertIn("one rank, or no MPI that zerohop serves", r.stderr)

    def test_comparing_tells_what_changed_and_what_is_not_alike(self):
        a = self.write("a.json", fake_statistics.document())
        b = fake_statistics.document(4, 4, end="running", measured=False, command=["./other"])
        b = self.write("b.json", b)
        same = json.loads(self.run_it("compare", a, a, "--json").stdout)
        self.assertEqual((same["changes"], same["warnings"]), ([], []))
        r = self.run_it("compare", a, b, COLUMNS="80")
        for said in ("different commands", "different numbers of nodes", "different ends", "Only one of the runs"):
            self.assertIn(said, " ".join(r.stdout.split()))
        self.assertEqual((r.returncode, self.run_it("compare", a, "none.json").returncode), (0, 2))

    def test_the_change_with_the_largest_share_comes_first(self):
        made = fake_statistics.document()
        for rank in made["ranks"]:
            rank["time"]["calls"][0]["seconds"] *= 2
            rank["time"]["wall_s"] += 1
        b = summary_of(document.join([self.write("b.json", made)]))
        wall, *changes = compare.changes_of(self.summary(), b)
        self.assertEqual((wall["what"], wall["change"]), ("wall", 1))
        self.assertEqual((changes[0]["what"], changes[0]["ratio"]), ("MPI_Recv", 2))
        self.assertEqual([c["share"] for c in changes], sorted((c["share"] for c in changes), reverse=True))

    def test_help_teaches(self):
        for command in ("report", "compare"):
            r = self.run_it(command, "--help")
            self.assertIn(f"zerohop {command} ", r.stdout)
            self.assertIn("Exit code", r.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
