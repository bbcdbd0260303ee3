"""Checks the zerohop command as users call it: exit codes, messages, JSON. Usage: check_cli.py <zerohop> <cc>"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cli import CC, ZEROHOP, Case, copy_command, zerohop
from fake_mpi import FakeMpi


class Cli(Case):
    def run_(self, *args, **env):
        return zerohop("run", "--library", self.lib, *args, **env)

    def test_help_teaches(self):
        commands = (
            "run",
            "info",
            "tune",
            "doctor",
            "top",
            "schedule",
            "bench",
            "bench p2p",
            "bench coll",
            "bench algorithms",
        )
        for args in ([], ["--help"], *([*command.split(), "--help"] for command in commands)):
            r = zerohop(*args)
            self.assertEqual(r.returncode, 0, args)
            self.assertIn("raw" if args == ["bench", "--help"] else "zerohop", r.stdout)

    def test_help_fits_the_terminal(self):
        benches = ("bench", *(f"bench {name}" for name in ("raw", "breakdown", "p2p", "coll", "algorithms", "apps")))
        for command in ("", "run", "info", "doctor", "tune", "top", "schedule", "model", *benches):
            for line in zerohop(*command.split(), "--help").stdout.splitlines():
                self.assertLessEqual(len(line), 80, (command, line))

    def test_unknown_words_are_named(self):
        cases = (
            (["rnu"], "there is no command rnu; did you mean run? there are: run info"),
            (["bench", "p2q"], "there is no command p2q; did you mean p2p? there are: p2p coll"),
            (["stats", "--help"], "there is no command stats; there are: run info"),
            (["bench", "xyz", "--help"], "there is no command xyz; there are: p2p coll"),
            (["tune", "a", "b c"], "not expected: a 'b c'"),
            (["info", "--nope"], "not expected: --nope"),
            (["--nope"], "not expected: --nope"),
            (["schedule", "bcast", "--rankz=8"], "not expected: --rankz=8; did you mean --ranks?"),
            (["schedule", "bcsat"], "no collective 'bcsat'; did you mean bcast? `zerohop schedule --list`"),
            (["info", "--collective", "al reduce"], "no collective 'al reduce'; did you mean allreduce?"),
            (["info", "--collective", ""], "--collective: names nothing: give a value"),
            (["bench"], "A subcommand is required"),
        )
        self.refused(cases)

    def test_run_preloads_and_passes_arguments(self):
        r = self.run_("sh", "-c", 'echo "$PRELOADED $1"', "name", "--option")
        self.assertEqual((r.returncode, r.stdout), (0, "yes --option\n"))

    def test_run_takes_the_end_of_its_options(self):
        r = self.run_("-o", "CMA=0", "--", "sh", "-c", 'echo "$PRELOADED $ZEROHOP_CMA $1 $2"', "name", "--", "x")
        self.assertEqual((r.returncode, r.stdout), (0, "yes 0 -- x\n"))

    def test_run_asks_for_the_statistics_of_a_report(self):
        words = ("sh", "-c", 'echo "$PRELOADED $ZEROHOP_STATS $ZEROHOP_CONFIG $1 $2"', "name", "--", "x")
        with tempfile.TemporaryDirectory() as folder:
            page = f"{folder}/job.html"
            r = self.run_("--report", page, "--", *words)
            self.assertEqual((r.returncode, r.stdout), (0, f"yes {folder}/job.json stats_time=1 -- x\n"))
            link = Path(folder, "link")
            link.symlink_to("nowhere")
            r = self.run_("-o", f"STATS={link}", "--report", page, *words)
            self.assertEqual((r.returncode, r.stdout), (0, f"yes {link} stats_time=1 -- x\n"))
            self.assertTrue(link.is_symlink(), "only a file of an older job goes")
            r = self.run_("--trace", f"{folder}/t.json", *words)
            self.assertEqual(r.stdout, f"yes {folder}/t.stats.json stats_time=1,trace={folder}/t.json -- x\n")
            r = self.run_("--trace", f"{folder}/t%.json", "--report", page.replace("job", "t%"), *words)
            self.assertEqual(r.returncode, 2, "a report is of one file")
            r = self.run_("--trace", f"{folder}/job.json", "--report", page, *words)
            self.assertEqual(r.stdout, f"yes {folder}/job.stats.json stats_time=1,trace={folder}/job.json -- x\n")
        for wrong in (("-o", "STATS=./t.json", "--trace", "t.json"), ("--trace", "t.html", "--report", "t.html"),
                      ("--trace", "a,b.json"), ("--hlp",)):  # fmt: skip
            self.assertEqual(self.run_(*wrong, "true").returncode, 2, wrong)
        r = self.run_("-o", "STATS=/dev/null", "--report", "/nodir/x.html", "true")
        self.assertEqual((r.returncode, "no --report: no folder /nodir" in r.stderr), (0, True), "others wait")
        r = self.run_("-o", "STATS=s-%r.json", "--report", "job.html", "true")
        self.assertEqual(r.returncode, 2)
        self.assertIn("without a %: s-%r.json", r.stderr)

    def test_run_starts_a_watcher_that_nobody_sees(self):
        # Its end is seen too: this waits for the end of all that hold the standard error.
        program = "import os\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print(len(os.listdir('/proc/self/fd')))"
        plain, watched = (self.run_(*o, sys.executable, "-c", program) for o in ((), ("--hang-report", "2m")))
        self.assertEqual((watched.returncode, watched.stdout, watched.stderr), (0, plain.stdout, ""))
        self.assertNotEqual(plain.stdout, "")
        for time in ("0", "s", "2d", "-1", "1.5"):
            self.refused([([f"--hang-report={time}", "true"], f"no time: {time}")], "run")

    def test_top_says_why_there_may_be_no_job(self):
        r = zerohop("top", "--once", "--pid", str(os.getpid()))
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        for word in ("ZEROHOP_ENABLE=0", "another user", "container", "zerohop run"):
            self.assertIn(word, r.stderr)
        r = zerohop("top", "--json", "--pid", str(os.getpid()))
        self.assertEqual((r.returncode, json.loads(r.stdout)["jobs"]), (1, []))
        self.refused([(["--pid", "0"], "--pid"), (["--job"], "--job")], "top")
        self.refused([(["--interval", x], f"no number from 0.3 to 3600: {x}") for x in ("0.1", "nan", "inf")], "top")

    def test_run_prints_what_a_shell_reads(self):
        r = self.run_("--print", "sh", "-c", 'echo $PRELOADED "$1"', "name", "it's")
        self.assertEqual(subprocess.run(["sh", "-c", r.stdout], capture_output=True, check=True).stdout, b"yes it's\n")

    def test_run_keeps_other_preloads_behind(self):
        r = self.run_("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="")
        self.assertEqual(r.stdout.strip(), self.lib)
        r = self.run_("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=self.lib)
        self.assertEqual(r.stdout.strip(), self.lib)

    def test_run_goes_behind_a_profiler(self):
        folder = Path(self.folder.name)
        preloads = {}
        for name, text in (
            ("profiler", "int PMPI_Send(void); int MPI_Send(void) { return PMPI_Send(); }"),
            ("library", "int PMPI_Send(void) { return 0; } int MPI_Send(void) { return 0; }"),
            ("other", "int other(void) { return 0; }"),
        ):
            (folder / f"{name}.c").write_text(text)
            preloads[name] = str(folder / f"lib{name}.so")
            subprocess.run([CC, "-shared", "-fPIC", str(folder / f"{name}.c"), "-o", preloads[name]], check=True)
        profiler, library, other = preloads["profiler"], preloads["library"], preloads["other"]
        for before, after in (
            ([profiler], [profiler, self.lib]),
            ([other], [self.lib, other]),
            ([library], [self.lib, library]),
            ([other, profiler, other], [other, profiler, self.lib, other]),
            ([self.lib, profiler], [profiler, self.lib]),
        ):
            for separator in (":", " "):
                r = self.run_("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=separator.join(before))
                self.assertEqual(r.stdout.strip().split(":"), after, before)

    def test_run_goes_behind_what_must_come_first(self):
        folder = Path(self.folder.name)
        (folder / "empty.c").write_text("int main(void) { return 0; }")
        watched = str(folder / "watched")
        built = subprocess.run([CC, "-fsanitize=address", str(folder / "empty.c"), "-o", watched], capture_output=True)
        if built.returncode == 0:
            said = self.run_("--print", watched).stdout
            self.assertRegex(said, rf"LD_PRELOAD=libasan\.so\.\d+:{self.lib} ")
            self.assertEqual(self.run_(watched).returncode, 0)
        before = "/lib/libother.so:/lib/libc_malloc_debug.so.0"
        said = self.run_("--print", "true", LD_PRELOAD=before).stdout
        self.assertIn(f"LD_PRELOAD=/lib/libc_malloc_debug.so.0:{self.lib}:/lib/libother.so ", said)

    def test_run_passes_the_exit_code(self):
        self.assertEqual(self.run_("sh", "-c", "exit 41").returncode, 41)
        self.assertEqual(self.run_("true").returncode, 0)
        self.assertEqual(self.run_("sh", "-c", "kill -9 $$").returncode, -9)

    def test_run_sets_options(self):
        r = self.run_(
            "--option", "CMA=off", "-o", "ZEROHOP_MEMORY=1024K", "sh", "-c", "echo $ZEROHOP_CMA $ZEROHOP_MEMORY"
        )
        self.assertEqual(r.stdout, "0 1M\n")

    def test_run_adds_settings_to_those_that_are_there(self):
        shell = ["sh", "-c", "echo $ZEROHOP_CONFIG"]
        r = self.run_("-o", "skew=0", "-o", "CHUNK=4096", *shell, ZEROHOP_CONFIG="/no/such/file,skew=1")
        self.assertEqual(r.stdout, "/no/such/file,skew=1,skew=0,chunk=4K\n")
        r = self.run_("-o", "folder=/a,b", *shell)
        self.assertEqual(r.returncode, 2)
        self.assertIn("only a file", r.stderr)

    def test_run_hands_on_what_is_read_at_load(self):
        config = Path(self.folder.name) / "load"
        config.write_text("HEAP=0\nENABLE=no\nWAIT=spin\n")
        shell = ["sh", "-c", "echo $ZEROHOP_HEAP $ZEROHOP_ENABLE ${ZEROHOP_WAIT-unset}"]
        self.assertEqual(self.run_(*shell, ZEROHOP_CONFIG=str(config)).stdout, "0 0 unset\n")
        r = self.run_("-o", "HEAP=1", *shell, ZEROHOP_CONFIG=str(config), ZEROHOP_ENABLE="yes")
        self.assertEqual(r.stdout, "1 yes unset\n")

    def test_run_refuses_wrong_options(self):
        r = self.run_("--option", "CAM=0", "true")
        self.assertEqual(r.returncode, 2)
        self.assertIn("did you mean ZEROHOP_CMA?", r.stderr)
        r = self.run_("--option", "WAIT=never", "true")
        self.assertEqual(r.returncode, 2)
        self.assertIn("auto, spin, passive", r.stderr)
        self.assertNotIn("using", r.stderr)
        self.assertEqual(self.run_("--option", "nonsense", "true").returncode, 2)

    def test_run_missing_program(self):
        for name in ("no-such-program-here", "./no/such/program", ""):
            r = self.run_(name)
            self.assertEqual(r.returncode, 127)
            self.assertIn("not found", r.stderr)
        self.assertEqual(self.run_().returncode, 2)

    def test_run_what_is_not_executable(self):
        pipe = str(Path(self.folder.name) / "pipe")
        os.mkfifo(pipe, 0o755)
        for name in ("/etc/passwd", "/tmp", pipe):
            self.assertEqual(self.run_(name).returncode, 126)

    def test_run_missing_library(self):
        r = zerohop("run", "--library", "/no/such/lib.so", "true")
        self.assertEqual(r.returncode, 126)
        self.assertIn("/no/such/lib.so", r.stderr)
        for path in ("/etc/passwd", *[self.static][: self.has_static]):
            r = zerohop("run", "--library", path, "true")
            self.assertEqual((r.returncode, f"{path} is no shared library" in r.stderr), (126, True), r.stderr)

    def in_a_folder_called(self, name):
        """The stand-in for the library in such a folder, and a temporary folder for links."""
        folder, links = Path(self.folder.name) / name, Path(self.folder.name) / "links"
        folder.mkdir(exist_ok=True)
        links.mkdir(exist_ok=True)
        return shutil.copy(self.lib, folder), str(links)

    def test_run_from_folders_that_ld_preload_cannot_hold(self):
        for name in ("with blank", "with:colon", "with$ORIGIN"):
            library, links = self.in_a_folder_called(name)
            for _ in range(2):
                r = zerohop("run", "--library", library, "sh", "-c", "echo $PRELOADED $LD_PRELOAD", TMPDIR=links)
                said, link = r.stdout.split()
                self.assertEqual((said, r.stderr), ("yes", ""), name)
                self.assertEqual(os.path.realpath(link), os.path.realpath(library))
        (mine,) = Path(links).iterdir()
        self.assertEqual((mine.stat().st_mode & 0o777, len(list(mine.iterdir()))), (0o700, 3))

    def test_run_follows_no_link_that_others_could_make(self):
        library, links = self.in_a_folder_called("with blank")
        mine = Path(links) / f"zerohop-{os.geteuid()}"
        shutil.rmtree(mine, ignore_errors=True)
        mine.mkdir()
        mine.chmod(0o777)
        r = zerohop("run", "--library", library, "sh", "-c", "echo $PRELOADED $LD_PRELOAD", TMPDIR=links)
        self.assertFalse(list(mine.iterdir()))
        self.assertRegex(r.stdout, "^yes /tmp/")
        shutil.rmtree(mine)

    def test_run_refuses_a_library_name_that_ld_preload_cannot_hold(self):
        name = str(Path(self.folder.name) / "a library.so")
        shutil.copy(self.lib, name)
        r = zerohop("run", "--library", name, "true")
        self.assertEqual(r.returncode, 126)
        self.assertIn("LD_PRELOAD cannot hold", r.stderr)

    def test_run_programs_and_files_with_blanks_in_their_names(self):
        folder = Path(self.folder.name) / "of the user"
        folder.mkdir()
        program, config = folder / "my prog", folder / "my settings"
        program.write_text('#!/bin/sh\necho "$PRELOADED $1 $ZEROHOP_HEAP $ZEROHOP_STATS"\n')
        program.chmod(0o755)
        config.write_text("HEAP=0\n")
        r = self.run_("-o", f"CONFIG={config}", "-o", "STATS=a b.json", str(program), "two words")
        self.assertEqual((r.stdout, r.stderr), ("yes two words 0 a b.json\n", ""))

    def test_run_and_doctor_from_a_folder_with_blanks(self):
        command = self.installed("libzerohop.so")
        r = zerohop("run", "sh", "-c", "echo $PRELOADED", command=command, TMPDIR=self.folder.name)
        self.assertEqual((r.stdout, r.stderr), ("yes\n", ""))
        self.assertEqual(zerohop("info", command=command).returncode, 0)

    def test_run_static_program_says_so_and_runs(self):
        if not self.has_static:
            self.skipTest("no static C library")
        r = self.run_(self.static)
        self.assertEqual(r.returncode, 5)
        self.assertIn("statically linked", r.stderr)

    def test_run_only_rank_0_speaks(self):
        self.assertEqual(self.run_("no-such-program", PMI_RANK="1").stderr, "")
        self.assertEqual(self.run_("no-such-program", OMPI_COMM_WORLD_RANK="3").stderr, "")

    def test_run_script(self):
        script = Path(self.folder.name) / "script"
        script.write_text("#!/bin/sh\necho $PRELOADED\n")
        script.chmod(0o755)
        r = self.run_(str(script))
        self.assertEqual((r.stdout, r.stderr), ("yes\n", ""))

    def test_info_json_names_sources(self):
        config = Path(self.folder.name) / "config"
        config.write_text("SKEW=0\n")
        r = zerohop(
            "info", "--json", "--option", "LOG=info", ZEROHOP_WAIT="spin", ZEROHOP_CONFIG=str(config), ZEROHOP_HEEP="1"
        )
        info = json.loads(r.stdout)
        seen = {v["name"]: (v["value"], v["source"]) for v in info["variables"]}
        self.assertEqual(seen["ZEROHOP_LOG"], ("info", "command line"))
        self.assertEqual(seen["ZEROHOP_WAIT"], ("spin", "environment"))
        self.assertEqual(seen["skew"], ("0", "configuration"))
        self.assertEqual(seen["ZEROHOP_MEMORY"], ("64M", "default"))
        self.assertEqual(len(info["complaints"]), 1)
        self.assertIn("ZEROHOP_HEAP", info["complaints"][0])
        self.assertGreaterEqual(info["machine"]["cpus"], 1)
        self.assertIn("cma", info["usable"])
        self.assertEqual(info["usable"]["ko"]["usable"], not info["usable"]["ko"]["why_not"])
        if not os.path.exists("/dev/zerohop"):
            self.assertIn("the kernel module is not loaded", info["usable"]["ko"]["why_not"])

    def heap_of(self, *args, **env):
        return json.loads(zerohop("info", "--json", *args, **env).stdout)["heap"]

    def test_info_tells_of_the_heap(self):
        heap = self.heap_of()
        self.assertEqual(heap["setting"], "auto")
        self.assertTrue(heap["why"])
        heap = self.heap_of("-o", "HEAP=0")
        self.assertEqual((heap["used"], heap["why"]), (False, "ZEROHOP_HEAP is 0"))
        heap = self.heap_of(ZEROHOP_ENABLE="off")
        self.assertEqual((heap["used"], heap["why"]), (False, "ZEROHOP_ENABLE is 0"))
        self.assertIn("Shared memory of the program's buffers (ZEROHOP_HEAP = auto)", zerohop("info").stdout)

    def test_info_heap_follows_the_limits(self):
        shell = ["sh", "-c", f"ulimit -f 100000; exec {shlex.quote(ZEROHOP)} info --json"]
        r = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
        heap = json.loads(r.stdout)["heap"]
        self.assertFalse(heap["used"])
        self.assertIn("ulimit -f", heap["why"])

    def test_info_text_and_other_ranks(self):
        self.assertIn("MEMORY", zerohop("info", "--variables").stdout)
        self.assertRegex(
            zerohop("info", ZEROHOP_WAIT="spin").stdout, r"(?s)MPI here.*set .*\n  ZEROHOP_WAIT = spin \(env"
        )
        self.assertEqual(zerohop("info", PMI_RANK="2").stdout, "")

    def test_info_tells_its_facts_and_of_values_that_are_none(self):
        for name, value in (("ZEROHOP_HEAP", "9"), ("ZEROHOP_ALGORITHM", "bcast:nope")):
            r = zerohop("info", **{name: value})
            self.assertEqual((r.returncode, r.stdout.count("  ! "), "MPI here" in r.stdout), (2, 1, True), r.stdout)
            r = zerohop("info", "--collective", "bcast", **{name: value})
            self.assertEqual((r.returncode, (r.stderr + r.stdout).count(value)), (2, 1), r.stdout + r.stderr)
            self.assertIn("64 KiB", r.stdout)

    def test_output_fits_80_columns_and_a_terminal(self):
        folder = Path(self.folder.name)
        for args in (["info"], ["doctor"], ["doctor", "python3"]):
            said = zerohop(*args, ZEROHOP_CACHE=str(folder / "none"), ZEROHOP_HEEP="1")
            for line in said.stdout.splitlines():
                self.assertTrue(len(line) <= 80 or max(map(len, line.split())) > 50, line)
        (folder / "columns.py").write_text(
            "import fcntl, pty, struct, sys, termios\n"
            "fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))\n"
            "import os\nos.execv(sys.argv[2], sys.argv[2:])\n"
        )

        def in_terminal(columns, *args):
            code = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
            words = [sys.executable, "-c", code, sys.executable, str(folder / "columns.py"), str(columns), ZEROHOP]
            return subprocess.run([*words, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

        wide = in_terminal(150, "info")
        widest = max(map(len, wide.stdout.splitlines()))
        self.assertTrue(100 < widest <= 151, wide.stdout + wide.stderr)
        self.assertNotIn("\x1b", wide.stdout)
        for args in ("schedule --list", "schedule bcast --nodes 2 -r 4"):
            narrow = in_terminal(60, *args.split())
            self.assertLessEqual(max(map(len, narrow.stdout.splitlines())), 60, narrow.stdout)
            said = zerohop(*args.split()).stdout
            self.assertTrue(60 < max(map(len, said.splitlines())) <= 80, said)
            self.assertEqual(narrow.stdout.split(), said.split())
        for args in ("bench raw --help", "bench --help", *["bench raw --lines"][: len(os.sched_getaffinity(0)) - 1]):
            lines = [x for x in in_terminal(40, *args.split()).stdout.splitlines() if not x.startswith("zerohop ")]
            self.assertEqual([x for x in lines if len(x) > 40 and " " in x.strip()], [], args)

    def test_info_says_nothing_twice(self):
        # Two levels for which the same was measured may well choose the same, so nothing is kept.
        with tempfile.TemporaryDirectory() as folder:
            lines = [line for line in zerohop("info", ZEROHOP_CACHE=folder).stdout.splitlines() if len(line) > 40]
        self.assertEqual([line for line in lines if lines.count(line) > 1], [])

    def test_info_markdown_is_the_committed_page(self):
        page = Path(__file__).parents[3] / "docs" / "user" / "variables.md"
        now = "run: zerohop info --variables-markdown > docs/user/variables.md"
        self.assertEqual(zerohop("info", "--variables-markdown").stdout, page.read_text(), now)

    def setUp(self):
        folder = Path(self.folder.name) / "mpi"
        folder.mkdir(exist_ok=True)
        self.mpi = FakeMpi(folder, ZEROHOP)
        self.mpi.place("f")

    def bench_with_a_made_up_host(self, *args, bench="coll --only matmul", code=0, **env):
        """`zerohop bench` on a host whose mpiexec starts nothing, and the arguments of that."""
        hosts = self.mpi.folder / "hosts.py"
        table = [{"name": "openmpi", "abi": "ompi", "mpiexec": [str(self.mpi.folder / "mpiexec")], "env": {}}]
        hosts.write_text(f"print({json.dumps(json.dumps(table))})\n")
        self.mpi.place("f")
        r = zerohop("bench", *bench.split(), "--hosts-py", str(hosts), *self.mpi.host[4:], *args, **env)
        self.assertEqual(r.returncode, code, r.stderr)
        return r, [launch["args"] for launch in self.mpi.launches()]

    def test_bench_launches_judges_and_judges_again(self):
        folder = Path(self.folder.name)
        files = {name: str(folder / f"matmul.{name}") for name in ("json", "launches")}
        words = ("--rounds", "6", "--layout", "1x2,1x4", "--sizes", "16")
        r, launches = self.bench_with_a_made_up_host(*words, *(w for n, f in files.items() for w in (f"--{n}", f)))
        self.assertEqual(len(launches), 24, "6 rounds of 2 and of 4 ranks, bare and with zerohop")
        self.assertEqual(sum("run" in line for line in launches), 12)
        self.assertEqual({line[line.index("--arms") + 1] for line in launches}, {"host", "host,zerohop,host"})
        self.assertEqual({line[line.index("--sizes") + 1] for line in launches}, {"16"})
        self.assertRegex(r.stdout, r"16 x 16 comm_us .* 0\.500 \[0\.500, 0\.500\]")
        document = json.loads(Path(files["json"]).read_text())
        self.assertGreaterEqual(document["machine"]["processors"], 1)
        rows = document["rows"]
        self.assertEqual({(row["ranks"], row["metric"], row["param"]) for row in rows},
                         {(n, m, 16) for n in (2, 4) for m in ("comm_us", "t_max_us", "time_us")})  # fmt: skip
        again = zerohop("bench", "coll", "--only", "matmul", "--rejudge", files["launches"])
        self.assertEqual((again.returncode, again.stdout), (0, r.stdout))

    def test_bench_refuses(self):
        for args in (["--ranks", "1"], ["--ranks", "two"], ["--rejudge", "/etc/passwd"], ["--hosts-py", "/no/such.py"]):
            for command in ("coll", "algorithms"):
                self.assertEqual(zerohop("bench", command, *args).returncode, 2, args)
        r, _ = self.bench_with_a_made_up_host("--hosts", "nonsense", code=2)
        self.assertIn("no MPI host nonsense here (there are openmpi;", r.stderr)

    def test_bench_looks_at_its_arguments_before_anything_runs(self):
        cases = (
            (("p2p", "--only", "latency,nope"), "no such name: nope"),
            (("coll", "--only", "nope"), "no such name: nope"),
            (("p2p", "--sizes", "8,3q"), "no size: 3q"),
            (("coll", "--sizes", "0"), "no size: 0"),
            (("p2p", "--sizes", "K"), "no size: K"),
            (("p2p", "--buffers", "heap"), "no such name: heap"),
            (("p2p", "--mpiexec", "/no/such -x"), "no program that can be run: /no/such"),
            (("p2p", "--mpiexec", "no-such-launcher"), "no program that can be run: no-such-launcher"),
            (("p2p", "--mpiexec", "sh", "--abi", "nope"), "nope"),
            (("raw", "--cpus", "0", "999"), "may not use CPU 999"),
            (("raw", "--cpus", "0,0"), "give two different ones"),
            (("raw", "--lines", "--cpus", "0,1"), "--cpus excludes --lines"),
            (("raw", "--json", "/no/such/out.json"), "no folder /no/such"),
            (("breakdown", "--cpus", "0,0"), "give two different ones"),
            (("breakdown", "--sizes", "32M"), "no size: 32M (a number from 8 to 16M"),
            (("p2p", "--json", "/"), "give the name of a file"),
            (("p2p", "--launches", "/no/such/launches.json"), "no folder /no/such"),
            (("p2p", "--rounds", "0"), "--rounds"),
            (("p2p", "--sizes", "12"), "no size: 12 (0, 1, 2, 4 or a number from 8 to 1G, a multiple of 8"),
            (("p2p", "--raw", "/no/such.json"), "no file that can be read: /no/such.json"),
            (("p2p", "--raw", str(Path(self.folder.name) / "main.c")), "holds no raw limits"),
            (("p2p", "--only", "rate,first", "--sizes", "4"), "nothing to run"),
            (("p2p", "--ranks", "1"), "--ranks"),
            (("p2p", "--blocks", "65"), "--blocks"),
            (("coll", "--placement", "nope"), "nope"),
            (("coll", "--only", "matmul", "--sizes", "5000"), "no size: 5000 (a number from 1 to 4"),
            (("coll", "--only", "matmul", "--timeout", "0"), "--timeout: no number from 0.001 to 1000000: 0"),
            *((("p2p", "--block-us", x), f"--block-us: no number from 1 to 1000000: {x}") for x in ("nan", "-1")),
            (("p2p", "--case-s", "nan"), "--case-s"),
            (("algorithms", "--chunks", "4K,x"), "no size: x"),
            (("algorithms", "--node-ranks", "0"), "--node-ranks"),
            (("algorithms", "--only", "nope"), "no such collective: nope"),
            (("coll", "--machines", "1"), "--machines"),
            (("coll", "--cyclic"), "--cyclic requires --machines"),
            (("coll", "--ranks", "2", "--machines", "3"), "2 ranks would fill 2 of 3 machines"),
            (("coll", "--ranks", "8,5", "--machines", "4"), "5 ranks would fill 3 of 4 machines"),
            (("p2p", "--only", "latency", "--machines", "3"), "2 ranks would fill 2 of 3 machines"),
            (("algorithms", "--machines", "2", "--node-ranks", "2"), "--machines excludes --node-ranks"),
        )
        self.refused(cases, "bench", quiet=False)

    def test_bench_needs_the_hosts_and_programs_that_are_named(self):
        programs = self.mpi.host[4:]
        for bench in ("p2p", "coll", "coll --only matmul", "algorithms"):
            for option in ("--hosts", "--under"):
                r, launches = self.bench_with_a_made_up_host(option, "openmpi,nope", bench=bench, code=2)
                self.assertEqual(launches, [], bench)
                self.assertIn("no MPI host nope here (there are openmpi; dev/setup", r.stderr)
            r = zerohop("bench", *bench.split(), "--mpiexec", "sh", "--abi", "abi", *programs)
            self.assertEqual(r.returncode, 2)
            self.assertIn("program for host custom is missing", r.stderr)
            self.assertIn("bench/README.md", r.stderr)

    def test_bench_takes_the_launcher_in_path(self):
        """Its binary interface is found by what it says of its version, or by the library beside it."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "bin").mkdir()
            (folder / "lib").mkdir()
            launcher = folder / "bin" / "mpiexec"
            env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
            copy = folder / "copy" / "bin" / "zerohop"
            copy.parent.mkdir(parents=True)
            copy_command(copy.parent)  # above the built one lies dev/hosts.py

            def bench(*args):
                command = [str(copy), "bench", "coll", "--only", "matmul", *self.mpi.host[4:], *args]
                return subprocess.run(
                    command, env={"HOME": name} | env, cwd=name, capture_output=True, text=True, timeout=60, check=False
                )

            text = (self.mpi.folder / "mpiexec").read_text()
            for version, library, host in (
                ("mpiexec (Open MPI) 5.0.1", None, "host openmpi: .*mpiexec, Open MPI 5.0.1, ABI ompi"),
                ("nothing known", "libmpi.so.40", "host custom: .*, unknown version, ABI ompi, .*lib/libmpi.so.40"),
            ):
                launcher.write_text(text.replace("sys.exit(1)", f"sys.exit(print({version!r}))"))
                launcher.chmod(0o755)
                if library:
                    (folder / "lib" / library).touch()
                r = bench("--rounds", "1", "--layout", "1x2", "--sizes", "16")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertRegex(r.stderr, host)
                self.assertIn("16 x 16", r.stdout)
            (folder / "lib" / "libmpi.so.12").touch()
            r = bench("--rounds", "1", "--layout", "1x2", "--sizes", "16")
            self.assertEqual(r.returncode, 2)
            self.assertIn("add --abi mpich, ompi or abi", r.stderr)
            launcher.unlink()
            env["PATH"] = str(folder / "bin")
            r = bench()
            self.assertEqual(r.returncode, 2)
            self.assertIn("no mpiexec or mpirun in PATH", r.stderr)

    def test_bench_stops_when_nothing_can_be_launched(self):
        host = ("--mpiexec", "false", *self.mpi.host[2:])
        r = zerohop("bench", "coll", "--only", "matmul", *host)
        self.assertEqual(r.returncode, 2)
        self.assertIn("every launch of the first round failed", r.stderr)
        self.assertNotIn("round 2", r.stderr)

    def test_bench_says_that_the_machine_is_busy(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            out = Path(self.folder.name) / "busy.json"
            arguments = ("--rounds", "1", "--layout", "1x2", "--sizes", "16", "--json", str(out))
            r, _ = self.bench_with_a_made_up_host(*arguments)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        self.assertEqual(r.stderr.count("the machine is busy: other programs use"), 1, r.stderr)
        self.assertTrue(json.loads(out.read_text())["machine"]["busy"])

    def test_demo_counts_as_the_benchmarks_do(self):
        sys.path.insert(0, str(Path(__file__).parents[3] / "dev"))
        import busy

        ticks = os.sysconf("SC_CLK_TCK")
        self.assertEqual(busy.busy_seconds("cpu  100 20 30 9000 500 4 6 40 0 0\ncpu0 1"), 200 / ticks)
        self.assertIsNone(busy.busy_seconds("cpu  0 0 0 0 0 0 0 0 0 0\n"))
        self.assertIsNone(busy.busy_seconds(""))
        watch = busy.Watch()
        now, used = watch.begun
        watch.begun = (now - 10, used - 10 * (os.cpu_count() or 1))
        self.assertIn("during the demo other programs used", watch.warning("during the demo"))
        watch.begun = (now - 10, used)
        self.assertEqual(watch.warning("during the demo"), "")

    def test_output_that_cannot_be_written_is_an_error(self):
        own = ("info", "info --json", "info --variables-markdown", "doctor", "doctor --json", "tune", "tune --profile",
               "tune --model gigabit-like", "schedule bcast", "schedule --list", "--version", "--help",
               "schedule bcast --profile gigabit-like", "bench --help", "bench p2p --help")  # fmt: skip
        for args in (*(words.split() for words in own), ["run", "--library", self.lib, "--print", "true"]):
            with Path("/dev/full").open("w") as full:
                r = subprocess.run([ZEROHOP, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertIn(r.returncode, (1, 2) if args[0] == "doctor" else (1,), args)
            self.assertIn("cannot write the output", r.stderr)

    def test_bench_notices_that_a_long_table_cannot_be_written(self):
        kept = Path(self.folder.name) / "long.launches"
        self.bench_with_a_made_up_host("--rounds", "1", "--layout", "1x2", "--sizes", "16", "--launches", str(kept))
        everything = json.loads(kept.read_text())
        for launch in everything["launches"]:
            (case,) = launch["document"]["cases"]
            launch["document"]["cases"] = [case | {"order": order} for order in range(16, 116)]
        kept.write_text(json.dumps(everything))
        command = [ZEROHOP, "bench", "coll", "--only", "matmul", "--rejudge", str(kept)]
        r = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertGreater(len(r.stdout), 8192, "more than a buffer")
        with Path("/dev/full").open("w") as full:
            r = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
        self.assertIn("cannot write the output", r.stderr)

    def test_bench_leaves_a_wrong_result_out(self):
        r, _ = self.bench_with_a_made_up_host("--rounds", "1", "--layout", "1x2", "--sizes", "13", code=2)
        self.assertIn("wrong data arrived", r.stderr)
        self.assertIn("2 launches failed and are not in the table", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
