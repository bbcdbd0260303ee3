#!/usr/bin/env python3
"""Runs the checks of the project: dev/check.py quick | check | full [--only <word>] [--list]

Stages run one after the other; a failing one does not stop the later ones. Each prints one line with its time and its
counts, a failing one also the end of its output; all output is kept in build/check/<stage>.log. The last line is
    N passed, N failed, N skipped
over all stages, and the exit code is not zero when anything failed. Called by `make check-quick`, `check`,
`check-full`.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "check"
JOBS = int(os.environ.get("ZH_JOBS", os.cpu_count() or 1))
SUMMARY = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
PYTHON = sys.executable
PLOTS = str(BUILD / "env" / "plots" / "bin" / "python")
BEGIN = time.monotonic()
# The matrix of MPI programs fills what other stages leave of a run: (s from the run's begin to its end, least, most).
MATRIX_S = {"pairwise": (1200, 180, 420), "full": (3600, 700, 1500)}
BUILD_S = 2400  # with an empty compiler cache, on two processors that others use as well
# Labels of tests (cmake/zh_label_tests.cmake) that a stage or a build leaves out. The inner loop leaves to `make check`
# more of the same ranks, proofs of every shape, programs without the heap.
NOT_QUICK = "threads|more-ranks|proof|slow|heap-(long|bare|on)"
NOT_IN = {
    "asan": "threads|proof|analysis",  # ranks are processes here and threads under the other sanitizer
    # It sees no race between processes, nor in one thread. A race is one of two threads: what 193 do together, 16 do,
    # and 8 nodes' members what 5 and 7 do.
    "tsan": "processes|one-thread|proof|analysis|most-ranks",
    "debug": "command|proof|analysis",  # invariants of what moves bytes
    # Another processor's code, in shapes that have all of it: emulated threads keep the order of this one.
    "aarch64": "not-emulated|more-ranks|most-ranks|proof|analysis",
}
FAILED_TEST_LINES = 12  # of a failed test's output, at the end of the whole run


@dataclasses.dataclass
class Result:
    """Counts of one stage; `notes` are shown below its line."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Stage:
    name: str
    levels: str  # the letters q, c, f of the runs that it belongs to
    action: Callable[[Path], Result]


def run(
    command: list[str], log: Path, timeout_s: float, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> tuple[int, str]:
    """Exit code, 124 when the time was up, and output, which is appended to `log`; the command has a process group of
    its own, of which nothing is left then."""
    with log.open("a") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        start = out.tell()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=timeout_s)
        except BaseException as problem:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(problem, subprocess.TimeoutExpired):
                raise
            out.write(f"\nkilled after {timeout_s:.0f} s\n")
            code = 124
    with log.open(errors="replace") as text:
        text.seek(start)
        return code, text.read()


def command_stage(*command: str, timeout_s: float = 900, env: dict[str, str] | None = None) -> Callable[[Path], Result]:
    """A stage that is one command: its closing summary line when it prints one, else one pass or failure."""

    def action(log: Path) -> Result:
        code, said = run(list(command), log, timeout_s, env)
        counts = SUMMARY.findall(said)
        if counts:
            passed, failed, skipped = map(int, counts[-1])
            if code != 0 and failed == 0:
                failed = 1
            return Result(passed, failed, skipped, [line for line in said.splitlines() if line.startswith("failed: ")])
        return Result(passed=int(code == 0), failed=int(code != 0))

    return action


def script_stage(script: str, *arguments: str, timeout_s: float = 900) -> Callable[[Path], Result]:
    """A Python script of the repository; its absence is a failure, for it would be a check that cannot fail."""

    def action(log: Path) -> Result:
        if not (ROOT / script).exists():
            log.write_text(f"{script} does not exist\n")
            return Result(failed=1)
        return command_stage(PYTHON, script, *arguments, timeout_s=timeout_s)(log)

    return action


def checker(script: str) -> Callable[[Path], Result]:
    """A checker of dev/: first the proof that it can fail, then the check."""

    def action(log: Path) -> Result:
        result = Result()
        for arguments in (["--self-test"], []):
            part = command_stage(PYTHON, script, *arguments, timeout_s=300)(log)
            result.passed += part.passed
            result.failed += part.failed
            result.skipped += part.skipped
            result.notes += part.notes
        return result

    return action


def ctest(preset: str, label: str, exclude: str = "", timeout_s: float = 900) -> Callable[[Path], Result]:
    """Builds a preset and runs its tests whose label matches `label`, and none `exclude` nor what NOT_IN leaves out."""

    def action(log: Path) -> Result:
        code, _ = run(["dev/build", preset], log, BUILD_S)
        if code != 0:
            return Result(failed=1, notes=[f"the build of preset {preset} failed"])
        folder = BUILD / "cmake" / preset
        report = folder / "junit.xml"
        report.unlink(missing_ok=True)
        # A test is several processes or threads that wait for each other: no test may count on a processor of its own.
        command = ["ctest", "--test-dir", str(folder), "-j", str(JOBS), "-L", label, "--output-on-failure",
                   "--no-tests=error", "--output-junit", str(report)]  # fmt: skip
        left_out = "|".join(filter(None, [exclude, NOT_IN.get(preset)]))
        if left_out:
            command += ["-LE", left_out]
        code, _ = run(command, log, timeout_s)
        result = Result()
        if report.exists():
            for case in ET.parse(report).getroot().iter("testcase"):
                status = case.get("status")
                if status == "run":
                    result.passed += 1
                elif status in ("notrun", "disabled") and case.find("skipped") is not None:
                    result.skipped += 1
                    result.notes.append(f"skipped: {case.get('name')}")
                else:
                    result.failed += 1
                    lines = (case.findtext("system-out") or "").splitlines()
                    said = [line for line in lines if line and not line.startswith("[")]
                    result.notes.append(
                        "\n        | ".join([f"failed: {case.get('name')}", *said[-FAILED_TEST_LINES:]])
                    )
        if code != 0 and result.failed == 0:
            result.failed = 1
        return result

    return action


def tidied_units() -> dict[tuple[str, ...], dict]:
    """What the release build compiles of src: sources -> entry of the database; a binary interface once."""
    database = BUILD / "cmake" / "release" / "compile_commands.json"
    units: dict[tuple[str, ...], dict] = {}
    for entry in json.loads(database.read_text()) if database.exists() else []:
        path = Path(entry["file"])
        if path.parent.name == "Unity":
            sources = re.findall(r'#include "(.*)"', path.read_text())
        else:
            sources = [str(path)]
        if all(s.endswith(".cpp") and Path(s).is_relative_to(ROOT / "src") for s in sources):
            units.setdefault(tuple(sources), entry)
    return units


def clang_tidy(log: Path) -> Result:
    """clang-tidy over src, one count per unit. One whose preprocessed text passed before is not looked at again."""
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    clang = shutil.which("clang++-14") or shutil.which("clang++")
    units = tidied_units()
    if not tool or not clang or not units:
        log.write_text(f"clang-tidy {tool}, clang++ {clang}, {len(units)} units in the release build\n")
        return Result(failed=1)
    cache = BUILD / "cache" / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    salt = (ROOT / ".clang-tidy").read_bytes() + tool.encode()

    def one(entry: dict) -> tuple[str, int, str]:
        path = entry["file"]
        arguments = entry["command"].split()
        flags = [a for a in arguments if a.startswith(("-I", "-D", "-std="))]
        for index, argument in enumerate(arguments):
            if argument in ("-isystem", "-include"):
                flags += [argument, arguments[index + 1]]
        flags = [f.replace('\\"', '"') for f in flags]
        text = subprocess.run([clang, *flags, "-E", "-C", path], capture_output=True, cwd=entry["directory"]).stdout
        stamp = cache / hashlib.sha256(salt + " ".join(flags).encode() + text).hexdigest()
        if stamp.exists() and text:
            return path, 0, ""
        done = subprocess.run(
            [tool, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", path, "--", *flags, "-Wno-everything"],
            capture_output=True, text=True, cwd=entry["directory"], timeout=600,
        )  # fmt: skip
        if done.returncode == 0:
            stamp.touch()
        return path, done.returncode, done.stdout + (done.stderr if done.returncode else "")

    result = Result()
    with ThreadPoolExecutor(JOBS) as pool, log.open("a") as out:
        for path, code, said in pool.map(one, units.values()):
            result.passed += code == 0
            result.failed += code != 0
            if code:
                result.notes += re.findall(r"^\S+: (?:warning|error): .*", said, re.MULTILINE)[:5] or [
                    f"findings: {path}"
                ]
                out.write(said)
    return result


def simulation(log: Path) -> Result:
    """The walk of schedules beside SimGrid. ZH_WITHOUT_SIMGRID=1 leaves it out where that cannot be installed."""
    # A package that came after the first configuration counts.
    code, _ = run(["cmake", str(BUILD / "cmake" / "release")], log, 300)
    parts = BUILD / "cmake" / "release" / "parts.txt"
    if code != 0 or not parts.exists():
        return Result(failed=1, notes=["preset release cannot be configured"])
    if "walk beside SimGrid     no:" in parts.read_text():
        left_out = os.environ.get("ZH_WITHOUT_SIMGRID") == "1"
        what = "SimGrid is not installed (package libsimgrid-dev; ZH_WITHOUT_SIMGRID=1 goes on without it)"
        return Result(skipped=int(left_out), failed=int(not left_out), notes=[what])
    return ctest("release", "simulation", timeout_s=1800)(log)


def ruff(log: Path) -> Result:
    return command_stage(str(BUILD / "env" / "tools" / "bin" / "ruff"), "check", "-q", ".")(log)


def matrix(cover: str) -> Callable[[Path], Result]:
    """As many cells as the time of the whole run leaves; they come in another order each day."""
    until_s, least_s, most_s = MATRIX_S[cover]

    def action(log: Path) -> Result:
        left_s = min(most_s, max(least_s, until_s - (time.monotonic() - BEGIN)))
        command = ("tests/mpi/run_matrix.py", "--cover", cover, "--budget", f"{left_s:.0f}")
        return script_stage(*command, timeout_s=2 * most_s)(log)

    return action


STAGES = [
    Stage("build", "qcf", command_stage("dev/build", "release", timeout_s=BUILD_S)),
    Stage("layers", "qcf", checker("dev/check_layers.py")),
    Stage("links", "qcf", checker("dev/check_links.py")),
    Stage("results", "qcf", checker("dev/results.py")),
    Stage("sync labels", "qcf", checker("dev/check_sync_labels.py")),
    Stage("exports", "qcf", checker("dev/check_exports.py")),
    Stage("functions", "qcf", command_stage(PYTHON, "dev/check_table.py", timeout_s=120)),
    Stage("instruction budgets", "cf", checker("dev/budgets.py")),
    Stage("kernel module", "c", command_stage(PYTHON, "dev/kernel.py", "--compile")),
    Stage("kernel module in machines", "f", command_stage(PYTHON, "dev/kernel.py", timeout_s=1800)),
    Stage("kernel module, planted faults", "f", command_stage(PYTHON, "dev/kernel.py", "--mutations", timeout_s=1800)),
    Stage("kernel module, watched", "f", command_stage(PYTHON, "dev/kernel.py", "--checked", timeout_s=3600)),
    Stage("format", "qcf", command_stage("dev/format", "--check")),
    Stage("ruff", "qcf", ruff),
    Stage("unit, the quick ones", "q", ctest("release", "unit", NOT_QUICK)),
    Stage("heap, the quick ones", "q", ctest("release", "heap", NOT_QUICK)),
    Stage("unit, model, stress", "cf", ctest("release", ".", "mpi|heap|simulation")),
    Stage("heap", "cf", ctest("release", "heap")),
    Stage("address sanitizer", "cf", ctest("asan", "unit|stress|fuzz", timeout_s=1200)),
    Stage("thread sanitizer", "cf", ctest("tsan", "unit|stress", timeout_s=1200)),
    Stage("clang-tidy", "cf", clang_tidy),
    Stage("conformance, pairwise", "c", matrix("pairwise")),
    Stage("walk beside SimGrid", "f", simulation),
    Stage("each file alone", "f", command_stage("dev/build", "plain", "product", timeout_s=BUILD_S)),
    Stage("clang build", "f", ctest("clang", "unit")),
    Stage("debug build", "f", ctest("debug", "unit|stress")),
    Stage("aarch64 under emulation", "f", ctest("aarch64", "unit", timeout_s=1800)),
    Stage("programs on the heap", "f", script_stage("tests/heap/programs.py", timeout_s=3600)),
    Stage("outside programs", "f", script_stage("tests/heap/outside.py", timeout_s=1800)),
    Stage("reliability, the quick form", "f", script_stage("tests/reliability/run.py", "--quick", timeout_s=600)),
    Stage("installed copy", "qf", script_stage("tests/install.py", timeout_s=300)),
    Stage("installed wheel", "cf", script_stage("tests/install.py", "--wheel", timeout_s=300)),
    Stage("packages in clean roots", "f", script_stage("tests/packages.py", timeout_s=1800)),
    Stage("installed by pip", "f", script_stage("tests/install.py", "--pip", timeout_s=1800)),
    Stage("hosts of unknown names", "qcf", script_stage("tests/mpi/unknown_hosts.py", timeout_s=300)),
    Stage("jobs with ranks without it", "cf", script_stage("tests/mpi/partial_jobs.py", timeout_s=900)),
    Stage("machines with kernels of their own", "cf", script_stage("tests/mpi/kernels.py", timeout_s=600)),
    Stage("statistics", "cf", script_stage("tests/mpi/statistics.py", timeout_s=600)),
    Stage("pages in a browser", "f", command_stage(PLOTS, "tests/report/pages.py", "build/bin/zerohop", timeout_s=900)),
    Stage("jobs looked at from outside", "cf", script_stage("tests/mpi/top.py", timeout_s=900)),
    Stage("timelines", "cf", script_stage("tests/mpi/timeline.py", timeout_s=600)),
    Stage("benchmarks on machines", "f", script_stage("tests/mpi/bench_machines.py", timeout_s=900)),
    Stage("applications, 2 ranks", "c", script_stage("tests/mpi/apps.py", "--ranks", "2", timeout_s=600)),
    Stage("applications", "f", script_stage("tests/mpi/apps.py", timeout_s=900)),
    Stage("profilers", "cf", script_stage("tests/mpi/profilers.py", timeout_s=600)),
    Stage("hosts older than MPI 4", "f", script_stage("tests/mpi/older_hosts.py", timeout_s=1500)),
    Stage("script for large machines", "f", command_stage("dev/large_machine.sh", "--check", timeout_s=600)),
    Stage("conformance, full", "f", matrix("full")),
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the project's checks.")
    parser.add_argument("level", choices=["quick", "check", "full"])
    parser.add_argument("--only", help="only stages whose name contains this word")
    parser.add_argument("--list", action="store_true", help="print the stages and stop")
    arguments = parser.parse_args()
    chosen = [s for s in STAGES if arguments.level[0] in s.levels and (arguments.only or "") in s.name]
    if arguments.list or not chosen:
        print("\n".join(s.name for s in chosen) or "no such stage")
        return 0 if chosen else 2
    LOGS.mkdir(parents=True, exist_ok=True)
    total, begin, failed = Result(), time.monotonic(), []
    for stage in chosen:
        log = LOGS / (re.sub(r"\W+", "-", stage.name) + ".log")
        log.unlink(missing_ok=True)
        start = time.monotonic()
        try:
            result = stage.action(log)
        except Exception as problem:  # a broken stage is a failed one, and the others still run
            with log.open("a") as out:
                out.write(f"\n{problem!r}\n")
            result = Result(failed=1)
        seconds = time.monotonic() - start
        verdict = "FAILED" if result.failed else "ok"
        counts = f"{result.passed} passed, {result.failed} failed, {result.skipped} skipped"
        print(f"{stage.name:26} {verdict:7} {seconds:7.1f} s   {counts}", flush=True)
        for note in result.notes[:20]:
            print(f"    {note}")
        if result.failed and log.exists():
            print("\n".join("    | " + line for line in log.read_text(errors="replace").splitlines()[-25:]))
            print(f"    whole output: {log.relative_to(ROOT)}", flush=True)
        if result.failed:
            failed.append(f"failed: {stage.name} ({result.failed})")
            failed += [f"    {note}" for note in result.notes if not note.startswith("skipped")][:10]
        total.passed += result.passed
        total.failed += result.failed
        total.skipped += result.skipped
    if failed:
        print("\n".join(failed))
    print(f"all stages in {(time.monotonic() - begin) / 60:.1f} minutes")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
