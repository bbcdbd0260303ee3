"""The programs that tests/heap/outside.py runs, in parts: how each starts and what of its output must be the same."""

from __future__ import annotations

import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import programs
from outside_run import Missing, Part, Results, Run, Wrong, junit, lines_of
from support import ROOT, environment

SOURCES = Path(__file__).resolve().parent / "outside"
CACHE = ROOT / "build" / "cache" / "outside"
ENV_DIR = programs.mpi_hosts.ENV_DIR
SCIENCE = ENV_DIR / "science" / "bin" / "python"


# ---- CPython


@functools.cache
def python_with_tests() -> str:
    for python in ("/usr/bin/python3.11", shutil.which("python3.11"), "/usr/bin/python3", sys.executable):
        probe = "import test.libregrtest, test.test_mmap, test.test_buffer"
        if python and subprocess.run([python, "-c", probe], capture_output=True, cwd="/").returncode == 0:
            return python
    raise Missing("no interpreter has its own tests (Debian: libpython3.11-testsuite)")


def run_cpython(modules: tuple[str, ...], match: tuple[str, ...], ignore: tuple[str, ...], run: Run) -> Results:
    options = [word for pattern in match for word in ("-m", pattern)]
    options += [word for pattern in ignore for word in ("-i", pattern)]
    report = run.folder / "report.xml"
    code, said = run.call(python_with_tests(), "-m", "test", "--junit-xml", report, *options, *modules)
    return junit(report, code, said)


def cpython(
    *modules: str, seconds: float, quick: bool = False, match: tuple[str, ...] = (), ignore: tuple[str, ...] = ()
) -> Part:
    name = " ".join(module.removeprefix("test_") for module in modules) + ("".join(f" {m}" for m in match))
    return Part("cpython", name, seconds, functools.partial(run_cpython, modules, match, ignore), quick)


# ---- NumPy and SciPy


def run_pytest(modules: tuple[str, ...], leave_out: str, run: Run) -> Results:
    if not SCIENCE.exists():
        raise Missing(f"no {SCIENCE} (dev/setup full)")
    report = run.folder / "report.xml"
    # The wheels' tests call for modules that are built on the spot, and name some of theirs slow.
    code, said = run.call(
        SCIENCE, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", leave_out or "test",
        f"--junitxml={report}", f"--basetemp={run.folder / 'pytest'}", "--pyargs", *modules,
    )  # fmt: skip
    return junit(report, code, said)


def pytest(*modules: str, seconds: float, quick: bool = False, leave_out: str = "") -> Part:
    program = modules[0].split(".")[0]
    names = " ".join(module.removeprefix(f"{program}.").replace(".tests", "") for module in modules)
    return Part(program, names, seconds, functools.partial(run_pytest, modules, leave_out), quick)


# ---- stress-ng

# Two workers each, and work that is counted, so that a run does the same in every mode; the time is only a limit.
STRESSORS = {
    "malloc": ("400", "--malloc-bytes", "32M"),
    "vm": ("3000", "--vm-bytes", "16M"),
    "mmap": ("10", "--mmap-bytes", "8M"),
    "mremap": ("50", "--mremap-bytes", "8M"),
    "madvise": ("10",),
    "mprotect": ("200",),
    "mlock": ("20",),
    "brk": ("2000",),
    "stack": ("4",),
    "fork": ("300",),
    "vfork": ("300",),
    "clone": ("40",),
    "pthread": ("500",),
    "futex": ("2000",),
    "sem": ("1000",),
    "sem-sysv": ("5000",),
    "shm": ("8", "--shm-bytes", "2M"),
    "shm-sysv": ("8", "--shm-sysv-bytes", "2M"),
    "vm-splice": ("500",),
    "vm-rw": ("8", "--vm-rw-bytes", "8M"),
    "vm-addr": ("2",),
    "vm-segv": ("50",),
    "mmapmany": ("2",),
    "mmapfixed": ("15",),
    "mincore": ("200",),
    "memcpy": ("30",),
    "memfd": ("2", "--memfd-bytes", "8M"),
    "munmap": ("2",),
    "bigheap": ("40", "--bigheap-growth", "1M"),
    "remap": ("30",),
    "daemon": ("50",),
    "exec": ("40",),
    "zombie": ("50",),
    "bad-altstack": ("50",),
    "stackmmap": ("4",),
    "tlb-shootdown": ("4",),
    "userfaultfd": ("2", "--userfaultfd-bytes", "4M"),
    "numa": ("4",),
    "pagemove": ("4", "--pagemove-bytes", "4M"),
    "msync": ("20",),
    "sysbadaddr": ("200",),
    "aio": ("50",),
    "io-uring": ("50",),
    "splice": ("50",),
    "zlib": ("4",),
    "qsort": ("2",),
    "matrix": ("40",),
}


def run_stressors(names: tuple[str, ...], run: Run) -> Results:
    if not shutil.which("stress-ng"):
        raise Missing("no stress-ng (dev/setup full)")
    results: Results = {}
    for name in names:
        ops, *options = STRESSORS[name]
        code, said = run.call(
            "stress-ng", f"--{name}", "2", f"--{name}-ops", ops, *options, "--verify", "--timeout", "4",
            "--temp-path", run.folder, "--no-rand-seed", name=f"stress-{name}",
        )  # fmt: skip
        bad = code not in (0, 3, 4) or re.search(r"\bfail(ed)?: \[", said) is not None
        results[name] = "failed" if bad else "passed" if code == 0 and "skipped" not in said else "skipped"
    return results


def stressors(*names: str, quick: bool = False) -> Part:
    run = functools.partial(run_stressors, names)
    return Part("stress-ng", " ".join(names), 0.7 * len(names), run, quick, forked=True)


# ---- programs of our own, in other languages


def built(name: str, source: Path, *command: str | Path, env: dict[str, str] | None = None) -> Path:
    """What `command` makes of `source`, made anew when the source is newer."""
    CACHE.mkdir(parents=True, exist_ok=True)
    product = CACHE / name
    if not product.exists() or product.stat().st_mtime < source.stat().st_mtime:
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            cwd=CACHE,
            env={**os.environ, **(env or {})},
        )
        if done.returncode != 0:
            raise Wrong(f"{command[0]} does not compile {source.name}: {done.stderr[-500:]}")
    return product


def run_go(run: Run) -> Results:
    if not shutil.which("go") or not shutil.which("cc"):
        raise Missing("no go, or no C compiler for it")
    env = {"CGO_ENABLED": "1", "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOCACHE": str(CACHE / "go-cache")}
    source = SOURCES / "outside.go"
    return lines_of(run.expect(built("outside-go", source, "go", "build", "-o", "outside-go", source, env=env)))


def run_java(collector: str, run: Run) -> Results:
    if not shutil.which("java") or not shutil.which("javac"):
        raise Missing("no java and javac")
    source = SOURCES / "Outside.java"
    built("Outside.class", source, "javac", "-d", ".", source)
    said = run.expect(
        "java", "-Xmx512m", f"-XX:+Use{collector}GC", f"-Djava.io.tmpdir={run.folder}", "-cp", CACHE, "Outside"
    )
    return lines_of(said)


# ---- PostgreSQL

TABLES = """
create table rows as select i, md5(i::text) as m, repeat(md5((i % 977)::text), 1 + i % 40) as t
  from generate_series(1, 60000) i;
create table large as select i, string_agg(md5((i * 100000 + j)::text), '') as body
  from generate_series(1, 24) i, generate_series(1, 20000) j group by i;
create index on rows (m);
create index on rows using gin (string_to_array(substr(m, 1, 8), 'a'));
analyze;
update rows set t = t || m where i % 7 = 0;
delete from rows where i % 11 = 0;
vacuum (analyze) rows;
select 'rows ' || count(*) || '|' || md5(string_agg(m || t, '' order by i)) from rows;
select 'large ' || md5(string_agg(md5(body), '' order by i)) || '|' || sum(length(body)) from large;
select 'sorted ' || md5(string_agg(m, '' order by t, m, i)) from rows;
select 'joined ' || count(*) || '|' || sum(a.i::bigint * b.i)
  from rows a join rows b on substr(a.m, 1, 4) = substr(b.m, 1, 4);
select 'grouped ' || md5(string_agg(k || n, '' order by k))
  from (select substr(m, 1, 4) k, count(*) n from rows group by 1) g;
select 'reversed ' || md5(string_agg(md5(reverse(body)), '' order by i)) from large;
select 'compressed ' || (sum(pg_column_size(body)) > 0) from large;
select 'json ' || md5((select json_agg(r order by i)::text from (select i, m from rows) r));
"""
ACCOUNTS = """
select 'accounts ' || sum(abalance) || '|' || count(*) from pgbench_accounts;
select 'branches ' || sum(bbalance) from pgbench_branches;
select 'tellers ' || sum(tbalance) from pgbench_tellers;
select 'history ' || sum(delta) || '|' || count(*) from pgbench_history;
"""


def run_postgresql(run: Run) -> Results:
    unpacked = (ENV_DIR / "postgresql").glob("usr/lib/postgresql/*/bin/initdb")
    found = sorted([*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *unpacked])
    if not found:
        raise Missing("no PostgreSQL server (dev/setup full)")
    binaries = found[-1].parent
    # A server refuses to run as root. What it then loads and writes must be within that user's reach.
    options: dict = {}
    folder = Path(tempfile.mkdtemp(prefix="zh-pg-", dir="/tmp"))
    try:
        if os.getuid() == 0:
            user = next((u for u in pwd.getpwall() if u.pw_name == "postgres"), None) or pwd.getpwnam("nobody")
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)
        env = dict(run.env) | {"HOME": str(folder), "TMPDIR": str(folder)}
        private = folder.parent / f"{folder.name}-libraries"
        private.mkdir(mode=0o755)
        preload = []
        for library in filter(None, run.preload.split(":")):
            preload.append(shutil.copy2(library, private))
        if preload:
            env["LD_PRELOAD"] = ":".join(map(str, preload))
        if "ZH_TORTURE_COUNTS" in env:
            env["ZH_TORTURE_COUNTS"] = str(private / "counts")
            (private / "counts").write_bytes(bytes(4096))
            (private / "counts").chmod(0o666)
        options |= {"env": env, "cwd": folder}
        data = folder / "data"
        run.expect(
            binaries / "initdb", "-D", data, "-A", "trust", "-N", "--no-locale", "-E", "UTF8", "-U", "zh",
            name="initdb", **options,
        )  # fmt: skip
        server = {"listen_addresses": "''", "shared_buffers": "8MB", "work_mem": "512kB", "fsync": "off", "jit": "off"}
        server |= {"min_parallel_table_scan_size": "0", "parallel_setup_cost": "0", "parallel_tuple_cost": "0"}
        settings = " ".join(f"-c {name}={value}" for name, value in server.items())
        control = [binaries / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "server.log"]
        run.expect(*control, "-o", f"-k {folder} {settings}", "start", name="start", **options)
        results: Results = {}
        try:
            psql = [binaries / "psql", "-h", folder, "-U", "zh", "-At", "-v", "ON_ERROR_STOP=1", "-q"]
            results |= lines_of(run.expect(*psql, "-d", "postgres", "-c", "create database b", name="psql", **options))
            for words in (TABLES, ACCOUNTS):
                (run.folder / "words.sql").write_text(words)
                shutil.copy2(run.folder / "words.sql", private / "words.sql")
                (private / "words.sql").chmod(0o644)
                if words is ACCOUNTS:
                    bench = [binaries / "pgbench", "-h", folder, "-U", "zh"]
                    run.expect(*bench, "-q", "-i", "-s", "2", "b", name="pgbench", **options)
                    load = ["-n", "-c", "4", "-j", "2", "-t", "250", "--random-seed=7"]
                    run.expect(*bench, *load, "b", name="pgbench", **options)
                said = run.expect(*psql, "-d", "b", "-f", private / "words.sql", name="psql", **options)
                results |= lines_of(said)
        finally:
            run.call(*control, "-m", "fast", "stop", name="stop", **options)
            shutil.copy2(folder / "server.log", run.folder / "server.txt")
            if "ZH_TORTURE_COUNTS" in env:
                shutil.copy2(private / "counts", run.counts)
        log = (run.folder / "server.txt").read_text(errors="replace")
        results["crashes"] = str(len(re.findall(r"terminated by signal|PANIC|was terminated", log)))
        return results
    finally:
        run.end()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder.parent / f"{folder.name}-libraries", ignore_errors=True)


# ---- programs of MPI


def run_mpi(name: str, ranks: int, run: Run) -> Results:
    program = next(p for p in programs.ALL if p.name == name)
    host = {h.name: h for h in programs.mpi_hosts.hosts()}.get("openmpi")
    if host is None or not program.binary.exists():
        raise Missing(f"no {program.binary if host else 'Open MPI'} (dev/setup full)")
    folder = run.folder / "job"
    folder.mkdir()
    program.prepare(folder, ranks)
    if name == "lammps":
        text = (folder / "in.melt").read_text().replace("0 14 0 14 0 14", "0 12 0 12 0 12").replace("run 60", "run 20")
        (folder / "in.melt").write_text(text)
    libraries = programs.PROGRAMS / "lib" / "x86_64-linux-gnu"
    # With zerohop's own collectives sums have other last bits.
    env = environment("bare", launched=False) | host.env | {"ZEROHOP_COLLECTIVES": "0", "ZH_TEST_MARK": run.mark}
    env |= {k: v for k, v in run.env.items() if k.startswith("ZH_TORTURE")}
    env["LD_LIBRARY_PATH"] = ":".join([str(libraries), str(libraries / "blas"), env["LD_LIBRARY_PATH"]])
    env["OPENBLAS_NUM_THREADS"] = env["OMP_NUM_THREADS"] = "1"
    # Only the ranks get the library, as in a job script.
    words = ["env", f"LD_PRELOAD={run.preload}"] if run.preload else []
    run.expect(*host.command(ranks, *words, str(program.binary), *program.arguments), env=env, cwd=folder)
    return {"results": program.results(folder)}


# ---- all parts, for each program the most telling first


def all_parts() -> list[Part]:
    mp = "test_multiprocessing_"
    return [
        cpython("test_mmap", "test_buffer", "test_memoryview", "test_ctypes", seconds=4, quick=True),
        cpython("test_array", "test_bytes", "test_pickle", "test_zlib", "test_hashlib", "test_struct", seconds=9),
        cpython(f"{mp}fork", seconds=6,
                match=("*WithProcessesTestPool*", "*SharedMemory*", "*TestHeap*", "*SharedCTypes*")),
        cpython("test_threading", "test_thread", seconds=14),
        cpython("test_fork1", "test_wait3", "test_posix", "test_gc", seconds=15),
        cpython("test_concurrent_futures", seconds=15,
                match=("*ThreadPoolExecutorTest*", "*ProcessPoolForkProcessPool*")),
        cpython("test_subprocess", seconds=25, ignore=("*communicate_timeout*",)),
        cpython("test_sqlite3", "test_bz2", "test_list", "test_set", "test_dict", "test_unicode", seconds=8),
        cpython("test_signal", seconds=20, ignore=("*Stress*", "*stress*")),
        cpython("test_os", "test_pty", "test_fcntl", "test_resource", "test_shelve", "test_mailbox", seconds=6),
        cpython("test_faulthandler", seconds=20),
        cpython("test_tracemalloc", "test_weakref", "test_decimal", "test_embed", "test_exceptions", seconds=8),
        cpython("test_lzma", "test_queue", seconds=15),
        cpython(f"{mp}spawn", seconds=12, match=("*SharedMemory*", "*TestHeap*", "*SharedCTypes*", "*TestPool*")),
        cpython("test_io", seconds=35),
        pytest("numpy._core.tests.test_mem_overlap", "numpy._core.tests.test_regression",
               "numpy._core.tests.test_memmap", seconds=4, quick=True),
        pytest("numpy._core.tests.test_nditer", "numpy._core.tests.test_numeric", seconds=11),
        pytest("numpy.fft", "numpy._core.tests.test_indexing", "numpy._core.tests.test_einsum",
               "numpy._core.tests.test_shape_base", seconds=9),
        # The test that is left out runs half a minute of threads for a deadlock that is not there.
        pytest("numpy.linalg", seconds=8, leave_out="not test_openblas_threading"),
        pytest("numpy.random.tests.test_random", "numpy.random.tests.test_smoke",
               "numpy.random.tests.test_generator_mt19937", seconds=11),
        pytest("numpy._core.tests.test_ufunc", "numpy._core.tests.test_umath", seconds=14),
        pytest("numpy.lib", seconds=25),
        pytest("numpy._core.tests.test_multiarray", seconds=45),
        pytest("scipy.ndimage.tests.test_filters", "scipy.ndimage.tests.test_measurements",
               "scipy.ndimage.tests.test_interpolation", seconds=13),
        pytest("scipy.linalg.tests.test_blas", "scipy.linalg.tests.test_decomp", seconds=20,
               leave_out="not test_svd_gesdd_nofegfault"),
        pytest("scipy.sparse.tests.test_construct", "scipy.sparse.csgraph", seconds=9),
        pytest("scipy.fftpack", "scipy.signal.tests.test_filter_design", seconds=11),
        pytest("scipy.fft", seconds=22),
        pytest("scipy.linalg.tests.test_basic", seconds=26),
        pytest("scipy.sparse.tests.test_base", seconds=30),
        pytest("scipy.signal.tests.test_signaltools", seconds=40),
        stressors("vm", "mmap", "mremap", "madvise", "mprotect", "fork", "malloc", quick=True),
        stressors("vfork", "clone", "pthread", "futex", "sem", "sem-sysv", "shm", "shm-sysv", "mlock"),
        stressors("brk", "stack", "vm-splice", "vm-rw", "vm-addr", "vm-segv", "mmapmany", "mmapfixed"),
        stressors("mincore", "memcpy", "memfd", "munmap", "bigheap", "remap", "daemon", "exec", "zombie"),
        stressors("bad-altstack", "stackmmap", "tlb-shootdown", "numa", "pagemove", "msync", "sysbadaddr", "aio",
                  "io-uring", "splice", "zlib", "qsort", "matrix", "userfaultfd"),
        # Go gives pages back by system calls of its own, which no library sees: here only C's blocks are shared.
        Part("go", "outside.go", 2, run_go, True, refused=True),
        Part("java", "G1", 3, functools.partial(run_java, "G1"), True),
        Part("java", "Serial", 3, functools.partial(run_java, "Serial")),
        Part("java", "Parallel", 3, functools.partial(run_java, "Parallel")),
        Part("java", "Z", 4, functools.partial(run_java, "Z")),
        Part("postgresql", "initdb, tables, pgbench", 6, run_postgresql),
        Part("lammps", "2 ranks", 2, functools.partial(run_mpi, "lammps", 2)),
        Part("hpcc", "2 ranks", 2, functools.partial(run_mpi, "hpcc", 2)),
    ]  # fmt: skip
