"""The test programs: how each is built, run under one configuration, and read. Knows no baseline and no cover."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from machines.placement import Placement

from matrix.launch import Outcome, Zerohop, launch
from matrix.results import Results, Test, read_lines

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "tests-mpi"
MPI4PY_TESTS = Path(os.environ.get("ZH_ENV_DIR", ROOT / "build" / "env")) / "mpi4py-tests" / "test"

MOST_RELAUNCHES = 12
CASE_TIMEOUT_S = 40
HANG_TIMEOUT_S = 6  # for cases that are known to hang under the host alone


@dataclasses.dataclass(frozen=True)
class Setting:
    """One configuration in which a program runs."""

    host: object
    placement: Placement
    zerohop: Zerohop | None
    env: dict[str, str]
    effort: str = "normal"
    seed: int = 1
    known_hangs: tuple[str, ...] = ()
    only: str = ""  # glob of test names
    without: tuple[str, ...] = ()  # globs of cases to leave out

    @property
    def ranks(self) -> int:
        return self.placement.ranks

    def launch(self, program: list[str], timeout_s: float, **env: str) -> Outcome:
        return launch(self.host, self.placement, program, timeout_s, self.zerohop, **{**self.env, **env})


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    run: Callable[[Setting, list[str]], Results]
    sources: list[Path]
    usable: Callable[[object], str] = lambda host: ""  # why it cannot run under a host, or nothing
    cost: float = 1.0  # relative, for ordering

    def digest(self) -> str:
        """Changes whenever the tests change."""
        sha = hashlib.sha256()
        for path in sorted(self.sources):
            sha.update(path.name.encode())
            sha.update(path.read_bytes())
        return sha.hexdigest()


# ---- C


def _compile(name: str, command: list[str], sources: list[Path], env: dict[str, str]) -> str:
    """Compiles once per content into build/tests-mpi/bin; raises SystemExit with the compiler's words."""
    sha = hashlib.sha256(json.dumps(command).encode())
    for path in sources:
        sha.update(path.read_bytes())
    target = WORK / "bin" / f"{name}-{sha.hexdigest()[:16]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        for old in target.parent.glob(f"{name}-*"):
            if len(old.name) == len(target.name):
                old.unlink(missing_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        units = [str(path) for path in sources if path.suffix in (".c", ".cpp", ".f", ".f90")]
        built = subprocess.run([*command, *units, "-o", str(fresh)], env=env, capture_output=True, text=True)
        if built.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{built.stdout}{built.stderr}")
        fresh.rename(target)
    return str(target)


def _c_sources(collectives: bool) -> list[Path]:
    """coll_* and everything else are two programs; both have the harness."""
    files = [path for pattern in ("*.c", "*.h") for path in (HERE / "c").glob(pattern)]
    return sorted(
        path
        for path in files
        if path.stem == "check" or (path.stem == "coll" or path.stem.startswith("coll_")) == collectives
    )


C_SOURCES = _c_sources(False)
COLL_SOURCES = _c_sources(True)
UNWIND_SOURCES = [HERE / "cxx" / "unwind.cpp", HERE / "c" / "check.c", HERE / "c" / "check.h"]
C_FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-pthread"]


def semantics_binary(host) -> str:
    return _compile(f"mpi_semantics-{host.name}", [host.mpicc, *C_FLAGS], C_SOURCES, host.environment())


def collectives_binary(host) -> str:
    return _compile(f"mpi_collectives-{host.name}", [host.mpicc, *C_FLAGS], COLL_SOURCES, host.environment())


def unwind_binary(host) -> str:
    """C++, with the same harness."""
    flags = [flag for flag in C_FLAGS if not flag.startswith("-std")] + ["-Wl,--no-as-needed,-lstdc++"]
    return _compile(f"mpi_unwind-{host.name}", [host.mpicc, *flags], UNWIND_SOURCES, host.environment())


def binary_of(host, source: Path) -> str:
    """A program of one file, for tests that live elsewhere."""
    return _compile(f"{source.stem}-{host.name}", [host.mpicc, *C_FLAGS], [source], host.environment())


def _semantics(
    extra: list[str], build: Callable[[object], str] = semantics_binary, part: str = "*"
) -> Callable[[Setting, list[str]], Results]:
    """Runs the cases of a program that match `part`."""
    return lambda setting, log: run_cases(setting, build(setting.host), part, log, extra)


def run_cases(
    setting: Setting, binary: str, part: str, log: list[str], extra: Sequence[str] = (), lister: object = None
) -> Results:
    """Runs the cases that match `part`, again behind one that ended the job.

    `lister` is a host under which the program starts without zerohop, where that is not its own.
    """
    command = [binary, "--list", "--filter", part]
    environment = (lister or setting.host).environment()
    listed = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not listed.stdout.split():
        return {"(list)": Test("fail", f"{Path(binary).name} --list gives nothing: {listed.stderr.strip()}")}
    left_out = [n for n in listed.stdout.split() if any(fnmatch.fnmatch(n, glob) for glob in setting.without)]
    names = [n for n in listed.stdout.split() if not setting.only or fnmatch.fnmatch(n, setting.only)]
    names = [n for n in names if n not in left_out]
    if not names:
        return {}
    hanging = [n for n in names if any(fnmatch.fnmatch(n, glob) for glob in setting.known_hangs)]
    results: Results = {}
    plan = [([name], [], HANG_TIMEOUT_S, name) for name in hanging]
    if len(hanging) < len(names):  # last: its statistics are those that stay
        plan.append((names, hanging, CASE_TIMEOUT_S, setting.only or part))
    for wanted, skipped, case_timeout, glob in plan:
        skip = ["--skip", ",".join([*skipped, *left_out])] if skipped or left_out else []
        flags = [*extra, "--filter", glob, *skip]
        results.update(_semantics_part(setting, binary, flags, wanted, skipped, case_timeout, log))
    return results


def _semantics_part(setting, binary, extra, names, skipped, case_timeout, log) -> Results:
    names = [name for name in names if name not in skipped]
    results: Results = {}
    after = ""
    options = [*extra, "--trace", "--effort", setting.effort, "--seed", str(setting.seed)]
    options += ["--timeout", str(case_timeout)]
    for _ in range(MOST_RELAUNCHES):
        left = len([name for name in names if name > after])
        rest = ["--after", after] if after else []
        outcome = setting.launch([binary, *options, *rest], 60 + 6 * left + case_timeout)
        log.append(outcome.output)
        reading = read_lines(outcome.output)
        results.update(reading.results)
        if reading.complete:
            if outcome.code != any(test.status == "fail" for test in reading.results.values()):
                results["(end)"] = Test("fail", f"exit code {outcome.code} after the last case: {outcome.tail(4)}")
            return results
        culprit = reading.running
        why = "time limit" if outcome.timed_out else f"the job ended with code {outcome.code}"
        if culprit is None:
            results["(start)"] = Test("fail", f"{why}: {outcome.tail(6)}")
            return results
        if results.get(culprit, Test("ok")).status != "fail":
            results[culprit] = Test("fail", f"{why}: {outcome.tail(4)}")
        after = culprit
        if not any(name > after for name in names):
            return results
    for name in names:
        results.setdefault(name, Test("fail", f"not reached in {MOST_RELAUNCHES} launches"))
    return results


# ---- scenarios: one launch each, judged by exit code and lines


def _good_exit(outcome: Outcome, ok_lines: int) -> str:
    said = [line for line in outcome.output.splitlines() if line.startswith("ok ")]
    if outcome.code != 0:
        return f"exit code {outcome.code}"
    return "" if len(said) == ok_lines else f"{len(said)} ranks said ok, expected {ok_lines}"


SCENARIOS: dict[str, Callable[[Outcome, int], str]] = {
    "finalize_after_send": lambda o, ranks: _good_exit(o, ranks // 2),
    "finalize_with_freed_isend": lambda o, ranks: _good_exit(o, ranks // 2),
    "finalize_with_bsend": lambda o, ranks: _good_exit(o, ranks // 2),
    "finalize_untidy": lambda o, ranks: _good_exit(o, 1),
    "finalize_in_exit_handler": _good_exit,
    "messages_in_a_callback_of_finalize": _good_exit,
    "send_after_a_cancelled_receive": _good_exit,
    "abort": lambda o, ranks: "" if o.code == 42 else f"exit code {o.code}, expected 42",
    "fatal_truncation": lambda o, ranks: "exit code 0" if o.code == 0 else "goes on" if "goes on" in o.output else "",
    "session_without_init": lambda o, ranks: _good_exit(o, 1),
    "without_init": _good_exit,
}


def _scenarios(setting: Setting, log: list[str]) -> Results:
    binary = semantics_binary(setting.host)
    results: Results = {}
    for name, judge in SCENARIOS.items():
        test = f"scenario.{name}"
        if setting.only and not fnmatch.fnmatch(test, setting.only):
            continue
        outcome = setting.launch([binary, "--timeout", "30", "--scenario", name], 45)
        log.append(f"--- {name}\n{outcome.output}")
        why = "time limit" if outcome.timed_out else judge(outcome, setting.ranks)
        results[test] = Test("fail", f"{why}: {outcome.tail(4)}") if why else Test("ok")
    return results


# ---- mpi4py's own tests


MPI4PY_GROUPS = {
    "p2p": "p2p_buf p2p_obj p2p_buf_matched p2p_obj_matched msgzero msgspec request status grequest cco_nb_buf threads",
    "comm": "comm comm_topo comm_inter group attributes errhandler errorcode environ session datatype pack subclass",
    "coll": "cco_buf cco_obj cco_vec cco_buf_inter cco_obj_inter cco_vec_inter cco_nb_vec cco_ngh_buf cco_ngh_obj "
    "cco_pr_buf cco_pr_vec cco_pr_ngh_buf op",
    "host": "handle toplevel mpimem buffer win rma file io exceptions mpiapi",
}

# Tests that take most of the time and say nothing of messages: accumulates, views of files, one-rank file access,
# pickles.
MPI4PY_WITHOUT = ("ccumulate", "FetchAndOp", "TestIOView", "TestIOBasicSelf", "TestDatatypePickle")


def run_mpi4py(group: str, setting: Setting, log: list[str]) -> Results:
    """The modules of a group; `setting.without` leaves out modules and tests by name."""
    modules = [f"test_{name}" for name in MPI4PY_GROUPS[group].split()]
    modules = [name for name in modules if not any(fnmatch.fnmatch(name, glob) for glob in setting.without)]
    results: Results = {}
    after = ""
    for _ in range(MOST_RELAUNCHES):
        with tempfile.TemporaryDirectory(prefix="zh-mpi4py-") as folder:
            command = [setting.host.python, str(HERE / "mpi4py_driver.py"), "--tests", str(MPI4PY_TESTS)]
            command += ["--out", folder, "--timeout", str(CASE_TIMEOUT_S), *(["--after", after] if after else [])]
            command += [f"--without={word}" for word in MPI4PY_WITHOUT] + modules
            outcome = setting.launch(command, 400, PYTHONDONTWRITEBYTECODE="1")
            log.append(outcome.output)
            last, complete = _merge_ranks(Path(folder), setting.ranks, results)
        if complete and outcome.code == 0:
            return _only(results, setting.only)
        why = "time limit" if outcome.timed_out else f"the job ended with code {outcome.code}"
        if complete or not last:
            results["(end)" if complete else "(start)"] = Test("fail", f"{why}: {outcome.tail(6)}")
            return _only(results, setting.only)
        if results.get(last, Test("ok")).status != "fail":
            results[last] = Test("fail", f"{why}: {outcome.tail(8)}")
        after = last
    results["(not reached)"] = Test("fail", f"tests after {after} were not reached in {MOST_RELAUNCHES} launches")
    return _only(results, setting.only)


def _only(results: Results, glob: str) -> Results:
    return {k: v for k, v in results.items() if not glob or fnmatch.fnmatch(k, glob)}


def _merge_ranks(folder: Path, ranks: int, results: Results) -> tuple[str, bool]:
    """Reads the ranks' files; a test is ok if it is so on all ranks. Returns where the job stopped, if it did."""
    stops, complete = [], True
    for rank in range(ranks):
        path = folder / f"rank{rank}.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        open_test, last, done = "", "", False
        for entry in lines:
            if entry["event"] == "start":
                open_test = last = entry["test"]
            elif entry["event"] == "end":
                open_test = ""
                old = results.get(entry["test"])
                rank_of = {"skip": 0, "ok": 1, "fail": 2}
                if old is None or rank_of[entry["status"]] > rank_of[old.status]:
                    results[entry["test"]] = Test(entry["status"], entry["why"])
            else:
                done = True
        complete = complete and done
        stops.append(open_test or last)
    # The rank that got least far names the test; the others may wait for it in a later one.
    order = [stop for stop in stops if stop]
    return (min(order, key=lambda t: _position(folder, t)) if order else ""), complete


def _position(folder: Path, test: str) -> int:
    order = folder / "order.json"
    names = json.loads(order.read_text()) if order.exists() else []
    return names.index(test) if test in names else len(names)


def _mpi4py_usable(host) -> str:
    if host.abi == "abi":
        return "mpi4py's wheel has no build for the standard ABI"
    return "" if MPI4PY_TESTS.is_dir() else "mpi4py's tests are not here (dev/setup check)"


# ---- Fortran

FORTRAN = {"mpif": HERE / "fortran" / "mpif_program.f90", "f08": HERE / "fortran" / "f08_program.f90"}


def _gfortran_command(host, program: str) -> list[str] | str:
    """The compile command of a Fortran program under a host, or why there is none."""
    gfortran = shutil.which("gfortran")
    include, library = Path(host.include), Path(host.libdir)
    if not gfortran:
        return "no gfortran"
    if not (include / "mpif.h").exists() or not (library / "libmpifort.so").exists():
        return "the host's wheel has no Fortran binding"
    version = subprocess.run([gfortran, "-dumpversion"], capture_output=True, text=True).stdout.strip().split(".")[0]
    modules = list((include / "mpi" / "gfortran").glob(f"{version}.*"))
    where = ["-I", str(include), *(a for p in modules for a in ("-I", str(p)))]
    if program == "f08" and not any((p / "mpi_f08.mod").exists() for p in modules):
        return "the host's wheel has no mpi_f08 module for gfortran"
    libraries = ["-L", str(library), f"-Wl,-rpath,{library}", "-lmpifort", "-lmpi"]
    return [gfortran, "-O1", "-g", "-fallow-argument-mismatch", *where, "-Wl,--no-as-needed", *libraries]


def fortran_missing(host, program: str) -> str:
    """Why a Fortran program cannot be compiled under a host, or nothing."""
    if host.abi == "abi":
        return "no Fortran binding of the standard ABI is linked here"
    command = _gfortran_command(host, program)
    return command if isinstance(command, str) else ""


def fortran_binary(host, program: str, command: Sequence[str] = ()) -> str:
    """The program, compiled for a host; by `command` where the host's headers are not those of a wheel."""
    words = list(command) or _gfortran_command(host, program)
    assert isinstance(words, list)
    return _compile(f"fortran-{program}-{host.name}", words, [FORTRAN[program]], host.environment())


def run_fortran(setting: Setting, binary: str, log: list[str]) -> Results:
    outcome = setting.launch([binary], 120)
    log.append(outcome.output)
    reading = read_lines(outcome.output)
    # A program ends with an error where a case has failed.
    good = not any(test.status == "fail" for test in reading.results.values())
    if not reading.complete or (outcome.code != 0) == good:
        why = "time limit" if outcome.timed_out else f"exit code {outcome.code}"
        reading.results[reading.running or "(end)"] = Test("fail", f"{why}: {outcome.tail(6)}")
    return _only(reading.results, setting.only)


def _fortran(program: str) -> Callable[[Setting, list[str]], Results]:
    return lambda setting, log: run_fortran(setting, fortran_binary(setting.host, program), log)


# ---- the collectives of the Intel MPI Benchmarks: they verify nothing, but have to reach their end at all sizes


IMB = Path(os.environ.get("ZH_ENV_DIR", ROOT / "build" / "env")) / "impi" / "bin" / "IMB-MPI1"
IMB_COLLECTIVES = (
    "Bcast Reduce Allreduce Reduce_scatter Reduce_scatter_block Allgather Allgatherv Gather Gatherv Scatter Scatterv "
    "Alltoall Alltoallv Barrier"
)


def _imb_usable(host) -> str:
    if host.abi != "mpich":
        return "IMB is built for the ABI of MPICH"
    return "" if IMB.exists() else "no IMB here (dev/setup)"


def _imb(setting: Setting, log: list[str]) -> Results:
    results: Results = {}
    for name in IMB_COLLECTIVES.split():
        if setting.only and not fnmatch.fnmatch(f"imb.{name}", setting.only):
            continue
        few = ["-iter", "3", "-iter_policy", "off", "-msglog", "20", "-time", "20", "-npmin", str(setting.ranks)]
        outcome = setting.launch([str(IMB), *few, "-root_shift", "on", name], 120)
        log.append(outcome.output)
        # The line of the largest size; a barrier has one line without a size.
        last = r"^\s+3(\s+\d+\.\d+){3}" if name == "Barrier" else r"^\s+1048576\s+3\s"
        whole = (
            re.search(last, outcome.output, re.MULTILINE) and "All processes entering MPI_Finalize" in outcome.output
        )
        good = whole and outcome.code == 0
        why = "time limit" if outcome.timed_out else f"exit code {outcome.code}, not all sizes: {outcome.tail(5)}"
        results[f"imb.{name}"] = Test("ok") if good else Test("fail", why)
    return results


def programs() -> list[Program]:
    mpi4py_sources = [HERE / "mpi4py_driver.py", *MPI4PY_TESTS.glob("*.py")]
    multiple = ["--thread", "multiple"]
    found = [
        Program("semantics", _semantics([]), C_SOURCES, cost=2),
        Program("semantics-mt", _semantics(multiple), C_SOURCES, cost=3),
        Program("collectives", _semantics([], collectives_binary), COLL_SOURCES, cost=2),
        Program("collectives-mt", _semantics(multiple, collectives_binary, "coll_threads.*"), COLL_SOURCES, cost=0.5),
        Program("unwind", _semantics([], unwind_binary), UNWIND_SOURCES, cost=0.3),
        Program("unwind-mt", _semantics(multiple, unwind_binary), UNWIND_SOURCES, cost=0.3),
        Program("imb", _imb, [Path(__file__)], _imb_usable, cost=0.5),
        Program("scenarios", _scenarios, C_SOURCES, cost=2),
    ]
    for group in MPI4PY_GROUPS:
        found.append(
            Program(f"mpi4py-{group}", functools.partial(run_mpi4py, group), mpi4py_sources, _mpi4py_usable, cost=2)
        )
    for name, source in FORTRAN.items():
        usable = functools.partial(fortran_missing, program=name)
        found.append(Program(f"fortran-{name}", _fortran(name), [source], usable, cost=0.3))
    return found


if __name__ == "__main__":
    sys.exit("run tests/mpi/run_matrix.py")
