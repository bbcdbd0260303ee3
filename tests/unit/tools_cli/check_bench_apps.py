"""Checks `zerohop bench apps`: rounds, statistics, table, exit codes, and what it reads of programs of others.

Usage: check_bench_apps.py <zerohop>. Needs no MPI: the launcher starts nothing and writes what a plan says.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
from zerohop import apps, apps_programs

ZEROHOP = sys.argv[1]
# Its n-th launch of a program and side takes the n-th time of the plan, the last one for ever.
MPIEXEC = """#!{python} -IS
import json, os, sys, time
from pathlib import Path
folder, args = Path({folder!r}), sys.argv[1:]
side = "zerohop" if "run" in args and "ZEROHOP_CONFIG" not in os.environ else "host"
name = next(a for a in args if a in ("is", "cg"))
plan = json.loads((folder / "plan").read_text())[name]
if "sleep" in plan:
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(plan["sleep"])
noted = folder / "noted"
lines = noted.read_text().splitlines() if noted.exists() else []
number = sum(line == f"{{name}} {{side}}" for line in lines)
noted.write_text("\\n".join([*lines, f"{{name}} {{side}}"]))
of = lambda key, usual: (plan.get(f"{{side}} {{key}}", plan.get(key, [usual])) + [usual])[number:][:1] or [usual]
times = plan[side]
document = dict(seconds=times[min(number, len(times) - 1)], verified=of("verified", True)[0], exact=True,
                value=of("value", 1), mpi_share=0.5 if side == "host" else 0.25)
Path(args[args.index("--out") + 1]).write_text(json.dumps(document))
if "run" not in args and any(k.startswith(("ZEROHOP", "LD_PRELOAD")) for k in os.environ):
    sys.exit("zerohop's variables at the host's side")
if "ZEROHOP_STATS" in os.environ:
    by_size = [dict(size="<1K", messages=3), dict(size=">=1M", messages=1)]
    calls = [dict(call="Bcast", calls=2, bytes=16), dict(call="Bcast", calls=1, bytes=8)]
    by_path = dict(eager=[dict(below_bytes=64, messages=3)], cma=[dict(below_bytes=2097152, messages=1)])
    ranks = 2 * [dict(sent=dict(by_size=by_size, by_path=by_path), calls=calls)]
    Path(os.environ["ZEROHOP_STATS"]).write_text(json.dumps(dict(ranks=ranks)))
sys.exit(plan.get("exit", 0))
"""


class Apps(unittest.TestCase):
    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = Path(name.name)
        host = {"name": "fake", "abi": "ompi", "mpiexec": [str(self.folder / "mpiexec")], "env": {}}
        for path, text in (
            ("mpiexec", MPIEXEC.format(python=sys.executable, folder=name.name)),
            ("bench_apps_ompi", "#!/bin/sh\n"),
            ("hosts.py", f"print({json.dumps(json.dumps([host]))})\n"),
        ):
            (self.folder / path).write_text(text)
            (self.folder / path).chmod(0o755)

    def call(self, *args, plan=None):
        (self.folder / "plan").write_text(json.dumps(plan or {}))
        (self.folder / "noted").unlink(missing_ok=True)
        where = ("--hosts-py", str(self.folder / "hosts.py"), "--programs", str(self.folder))
        command = [ZEROHOP, "bench", "apps", *args, *where]
        env = os.environ | {"ZEROHOP_CONFIG": "heap=0"}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    def rows(self, *args, plan, rounds=8, code=0):
        path = self.folder / "out.json"
        r = self.call(*args, "--classes", "S", "--rounds", str(rounds), "--json", str(path), plan=plan)
        self.assertEqual(r.returncode, code, r.stderr)
        document = json.loads(path.read_text())
        self.assertEqual(document["schema"], "zerohop-bench-apps/1")
        return document["rows"], r

    def test_ratios_are_formed_within_a_round_whose_order_turns(self):
        # Both sides drift alike: medians of each would say 2 too, but their own spread hides it.
        host = [9, *(1.0 * 2**i for i in range(8))]
        (row,), _ = self.rows("is", plan={"is": {"host": host, "zerohop": [7, *(t / 2 for t in host[1:])]}})
        self.assertEqual(row["ratio"], {"median": 0.5, "low": 0.5, "high": 0.5, "valid": True})
        self.assertEqual((row["host_s"]["low"], row["host_s"]["high"]), (1, 128))
        self.assertEqual((row["app"], row["class"], row["ranks"], row["host"]), ("is", "S", 2, "fake"))
        self.assertEqual(row["mpi_share"], {"host": 0.5, "zerohop": 0.25})
        calls = {"Bcast": {"calls": 6, "bytes": 48}}
        self.assertEqual(row["mpi_ratio"], {"median": 0.25, "low": 0.25, "high": 0.25, "valid": True})
        sizes = {"messages": {"<1K": 6, ">=1M": 2}, "below": {"64": 6, "2097152": 2}}
        self.assertEqual(row["size_table"], sizes | {"calls": calls})
        sides = (self.folder / "noted").read_text().split()[1::2]
        self.assertEqual(sides[:6], ["host", "zerohop", "zerohop", "host", "host", "zerohop"])
        self.assertEqual(len(sides), 2 * 9)

    def test_losses_above_three_percent_come_first_and_gains_are_marked(self):
        plan = {"is": {"host": [1], "zerohop": [0.5]}, "cg": {"host": [1], "zerohop": [1.04]}}
        rows, r = self.rows("is,cg", plan=plan)
        self.assertEqual([row["ratio"]["median"] for row in rows], [0.5, 1.04])
        shown = [line for line in r.stdout.splitlines() if line.startswith(("is", "cg"))]
        self.assertTrue(shown[0].startswith("cg") and shown[0].endswith("loss above 3 %"), r.stdout)
        self.assertTrue(shown[1].endswith("gain"), r.stdout)
        self.assertIn("50% -> 25%", shown[0])
        with mock.patch.dict(os.environ, COLUMNS="40"):
            r = self.call("is,cg", "--classes", "S", "--rounds", "1", plan=plan)
        self.assertEqual((r.returncode, max(map(len, r.stdout.splitlines())) <= 40), (0, True), r.stdout)

    def test_the_other_side_may_be_zerohop_otherwise_set(self):
        (row,), r = self.rows("is", "--against", "heap=0,cma=0", plan={"is": {"host": [1], "zerohop": [0.5]}})
        self.assertEqual(row["ratio"]["median"], 0.5)
        self.assertIn("zerohop's time by that with heap=0,cma=0", r.stdout)

    def test_a_signal_ends_what_was_launched(self):
        (self.folder / "plan").write_text(json.dumps({"is": {"sleep": 600}}))
        where = ("--hosts-py", str(self.folder / "hosts.py"), "--programs", str(self.folder))
        job = subprocess.Popen([ZEROHOP, "bench", "apps", "is", *where], stderr=subprocess.DEVNULL)
        while not (self.folder / "pid").exists() or not (pid := (self.folder / "pid").read_text()):
            self.assertIsNone(job.poll())
            time.sleep(0.02)
        job.terminate()
        self.assertEqual(job.wait(timeout=30), 2)
        self.assertFalse(Path("/proc", pid).exists())

    def test_few_rounds_resolve_nothing(self):
        (row,), r = self.rows("is", plan={"is": {"host": [1], "zerohop": [0.5]}}, rounds=5)
        self.assertFalse(row["ratio"]["valid"])
        self.assertIn("not resolved", r.stdout)

    def test_a_wrong_result_is_told_even_if_it_came_once(self):
        for wrong in ({"zerohop verified": [True, True, False]}, {"host value": [1, 1, 2]}):
            rows, r = self.rows("is", plan={"is": {"host": [1], "zerohop": [1], **wrong}}, code=1)
            self.assertFalse(rows[0]["verified"])
            self.assertIn("WRONG RESULT", r.stdout)

    def test_a_launch_that_fails_leaves_its_program_out(self):
        plan = {"is": {"host": [1], "zerohop": [1], "exit": 3}, "cg": {"host": [1], "zerohop": [1]}}
        rows, r = self.rows("is,cg", plan=plan, code=2)
        self.assertEqual([row["app"] for row in rows], ["cg"])
        self.assertIn("is S, 2 ranks, fake: exit code 3", r.stderr)

    def test_list_starts_nothing_and_says_what_is_missing(self):
        r = self.call("--list")
        self.assertLessEqual(max(map(len, r.stdout.splitlines())), 80)
        lines = {line.split()[0]: line for line in r.stdout.replace("\n   ", "").splitlines()}
        self.assertEqual(set(lines), {a.name for a in apps_programs.all_apps()})
        self.assertIn("under fake", lines["is"])
        self.assertIn("not here", lines["matmul"])
        self.assertFalse((self.folder / "noted").exists())

    def test_refuses(self):
        for args, said in (
            (("iss",), "no program iss"),
            (("",), "an empty word names nothing"),
            (("is", "--against="), "an empty word names nothing"),
            (("is", "--hosts", "nowhere"), "no host nowhere (there are: fake)"),
            (("is", "--classes", "S,X"), "no class X"),
            (("is", "--against", "heap=0;foo=1"), "--against foo=1: unknown variable foo"),
            (("is", "--ranks", "0"), "--ranks"),
            (("is", "--rounds", "0"), "--rounds"),
            *((("is", "--timeout", x), f"--timeout: invalid amount value: '{x}'") for x in ("nan", "inf", "-1")),
            (("is", "--json", "/not/there.json"), "No such file or directory: '/not/there.json'"),
            (("is", "--json", str(self.folder)), "Is a directory"),
            (("matmul",), "nothing to run"),
        ):
            r = self.call(*args)
            self.assertEqual((r.returncode, r.stdout), (2, ""), args)
            self.assertIn(said, r.stderr)


class PathHosts(unittest.TestCase):
    def test_the_launcher_in_path_tells_its_binary_interface(self):
        for version, name, abi in (("mpirun (Open MPI) 4.1.4", "openmpi", "ompi"), ("HYDRA build", "mpich", "mpich")):
            with (
                tempfile.TemporaryDirectory() as folder,
                mock.patch.dict(os.environ, PATH=f"{folder}/bin:/usr/bin:/bin"),
            ):
                mpiexec, library = Path(folder, "bin", "mpiexec"), Path(folder, "lib", "libmpi.so.1")
                for path, text in ((mpiexec, f"#!/bin/sh\necho '{version}'\n"), (library, "")):
                    path.parent.mkdir()
                    path.write_text(text)
                    path.chmod(0o755)
                with mock.patch.object(Path, "cwd", lambda folder=folder: Path(folder)):
                    (host,) = apps.hosts_here(None, Path(folder))
            self.assertEqual((host["name"], host["abi"], host["mpiexec"]), (name, abi, [str(mpiexec)]))
            self.assertEqual(Path(host["env"]["LD_LIBRARY_PATH"]).name, "lib")
            self.assertEqual("OMPI_ALLOW_RUN_AS_ROOT" in host["env"], abi == "ompi")


class Reading(unittest.TestCase):
    def test_imb(self):
        said = """# Benchmarking PingPong
       #bytes #repetitions      t[usec]   Mbytes/sec
            8         1000         0.50        16.00
      1048576           20       100.00     10000.00
# Benchmarking Allreduce
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1024          100         1.00         3.00         2.00
"""
        end = "# All processes entering MPI_Finalize\n"
        out = apps_programs.read_imb(Path(), said + end)
        self.assertEqual({k: round(v * 1e6, 9) for k, v in out.seconds.items()},
                         {"PingPong 8": 0.5, "PingPong 1M": 100, "Allreduce 1K": 2})  # fmt: skip
        self.assertTrue(out.verified)
        self.assertFalse(apps_programs.read_imb(Path(), said).verified)

    def test_osu(self):
        said = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n8   1.50\n16  9\n65536   20.00\n"
        out = apps_programs.read_osu(Path(), said)
        self.assertEqual({k: round(v * 1e6, 9) for k, v in out.seconds.items()}, {"8": 1.5, "64K": 20})

    def test_lammps_must_keep_its_energy(self):
        thermo = "Step Temp E_pair E_mol TotEng Press\n 0 1.44 -6.77 0 -4.61 -5.02\n 100 0.7 -5.7 0 {} 0.1\n"
        loop = "Loop time of 0.25 on 2 procs for 100 steps with 4000 atoms\n"
        good, bad = (apps_programs.read_lammps(Path(), thermo.format(e) + loop) for e in ("-4.615", "-4.71"))
        self.assertEqual((good.seconds, good.verified, bad.verified), ({"": 0.25}, True, False))

    def test_hpcc(self):
        values = "HPL_time=2.5\nPTRANS_time=0.1\nMPIFFT_time0=0.1\nMPIFFT_time1=0.2\nMaxPingPongLatency_usec=0.5\n"
        with tempfile.TemporaryDirectory() as folder:
            for text, verified in (
                (f"0 tests completed and failed\n{values}Success=1\n", True),
                (f"||Ax-b|| 99.0 ...... FAILED\n{values}Success=1\n", False),
            ):
                Path(folder, "hpccoutf.txt").write_text(text)
                out = apps_programs.read_hpcc(Path(folder), "")
                self.assertEqual(out.verified, verified)
            self.assertAlmostEqual(out.seconds["FFT"], 0.3)
            self.assertAlmostEqual(out.seconds["ping-pong"], 0.5e-6)

    def test_what_says_no_time_is_refused(self):
        for read in (apps_programs.read_imb, apps_programs.read_osu, apps_programs.read_lammps, apps_programs.read_hpcc,
                     apps_programs.read_halo, apps_programs.read_matmul, apps_programs.read_json):  # fmt: skip
            with self.assertRaises(apps_programs.Unreadable):
                read(Path("/none"), "Segmentation fault\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
