#!/usr/bin/env python3
"""`zerohop top` and `zerohop run --hang-report` say of real jobs who waits for whom, and who is to blame.

    tests/mpi/top.py [--host NAME]... [--only NAME]

Deadlocks, a late sender, a busy receiver, a rank in a call of the host, one that is missing in a collective, stopped,
killed; the screen where there is tmux; the watcher tells once, also of a script's program, and keeps no launcher
waiting. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import TOKEN, Zerohop, end_all, launch, processes_with  # noqa: E402
from matrix.programs import binary_of  # noqa: E402
from matrix.script import Wrong, expect, run_cases  # noqa: E402

SOURCE = HERE / "top" / "program.c"
ZEROHOP = Zerohop(ROOT / "build")
RANKS = 4
PATIENCE_S = 40


class Job:
    """A job that somebody has to kill; `errors` is the file of its standard error."""

    def __init__(self, host, words: list[str], errors: Path):
        self.errors = errors
        self.token = uuid.uuid4().hex
        with errors.open("wb") as file:
            self.launcher = subprocess.Popen(
                host.command(RANKS, *words), env=host.environment(**{TOKEN: self.token}), stdin=subprocess.DEVNULL,
                stdout=file, stderr=file, start_new_session=True)  # fmt: skip

    def top(self, *options: str) -> subprocess.CompletedProcess:
        command = [str(ZEROHOP.command), "top", "--pid", str(self.launcher.pid), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def look(self) -> dict:
        """Of the job; empty as long as there is none."""
        done = self.top("--json")
        if done.returncode == 1:
            return {}
        expect(done.returncode == 0, done.stderr)
        jobs = json.loads(done.stdout)["jobs"]
        expect(len(jobs) == 1, f"{len(jobs)} jobs")
        return jobs[0]

    def until(self, good: Callable[[dict], bool]) -> dict:
        """The first look that is so."""
        end = time.monotonic() + PATIENCE_S
        look: dict = {}
        while time.monotonic() < end:
            look = self.look()
            if look and good(look):
                return look
        raise Wrong(f"it was never so; at last: {json.dumps(look)[:2000]} {self.errors.read_text()[-500:]}")


@contextlib.contextmanager
def started(host, *words: str, run: tuple[str, ...] = ()) -> Iterator[Job]:
    with tempfile.TemporaryDirectory(prefix="zh-top-") as folder:
        job = Job(host, [str(ZEROHOP.command), "run", *run, *words], Path(folder) / "errors")
        try:
            yield job
        finally:
            end_all(job.launcher, job.token)


@contextlib.contextmanager
def program(host, what: str, run: tuple[str, ...] = ()) -> Iterator[Job]:
    with started(host, str(binary_of(host, SOURCE)), what, run=run) as job:
        yield job


def deadlocks(host) -> None:
    for what, ranks in (("two", [0, 1]), ("three", [0, 1, 2]), ("any", [0, 1, 2, 3])):
        with program(host, what) as job:
            look = job.until(lambda look: look["verdict"]["deadlock"])
            verdict = look["verdict"]
            expect(verdict["blocked"] == ranks, verdict)
            if what == "any":
                continue
            expect(
                verdict["deadlock"] == ranks and "0 waits in MPI_Recv for a message of 1 (tag 7" in verdict["text"],
                verdict,
            )
            waits = look["ranks"][0]["waits"]
            expect(waits["ranks"] == [1] and waits["tag"] == 7 and waits["communicator"] == "MPI_COMM_WORLD", waits)
            expect(look["ranks"][3]["state"] == "computing", look["ranks"][3])


def culprits(host) -> None:
    for what, culprit, state, waiters in (
        ("late", 3, "computing", [0, 1, 2]),
        ("busy", 1, "computing", [0]),
        ("host", 2, "in host", [0]),
        ("barrier", 2, "computing", [0, 1, 3]),
    ):
        with program(host, what) as job:
            first = job.until(lambda look: "culprit" in look["verdict"])
            # Beside other work some ranks come to wait later than others.
            look = job.until(lambda look, all_of_them=waiters: look["verdict"].get("waiters") == all_of_them)
            for verdict in (first["verdict"], look["verdict"]):
                expect([verdict[k] for k in ("culprit", "culprit_is")] == [culprit, state], (what, verdict))
            if what == "busy":
                waits = look["ranks"][0]["waits"]
                expect(waits["for"] == "receive" and waits["bytes"] == 1 << 22, waits)
                expect(look["ranks"][1]["cpu_percent"] > 5, look["ranks"][1])
            if what == "host":
                expect(look["ranks"][2]["call"] == "MPI_Win_fence", look["ranks"][2])


def stopped_and_killed(host) -> None:
    with program(host, "late") as job:
        look = job.until(lambda look: look["verdict"].get("culprit") == 3)
        pid = look["ranks"][3]["pid"]
        os.kill(pid, signal.SIGSTOP)
        job.until(lambda look: look["verdict"].get("culprit_is") == "stopped")
        os.kill(pid, signal.SIGCONT)
        job.until(lambda look: look["verdict"].get("culprit_is") == "computing")


def tables_and_exit_codes(host) -> None:
    with program(host, "two") as job:
        job.until(lambda look: look["verdict"]["deadlock"])
        table = job.top("--once")
        expect(table.returncode == 0 and "deadlock: " in table.stdout and "MPI_Recv" in table.stdout, table)
        ends = job.top("--once", "--job", "no such job")
        expect(ends.returncode == 2, ends)
    ends = job.top("--once")
    expect(ends.returncode == 1 and "no job" in ends.stderr, ends)


def tmux(name: str, *words: str) -> str:
    done = subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout


def screens(host) -> None:
    """In a shell of its own, so that what the screen leaves behind is seen."""
    name = f"zh-{uuid.uuid4().hex[:8]}"
    with program(host, "two") as job:
        job.until(lambda look: look["verdict"]["deadlock"])

        def shows(*wanted: str) -> None:
            end = time.monotonic() + PATIENCE_S
            pane = ""
            while time.monotonic() < end:
                pane = tmux(name, "capture-pane", "-p", "-t", "top")
                if all(word in pane for word in wanted):
                    return
                time.sleep(0.2)
            raise Wrong(f"{wanted} not in:\n{pane}")

        command = f"{ZEROHOP.command} top --pid {job.launcher.pid}"
        tmux(name, "-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "env PS1='$ ' sh")
        try:
            tmux(name, "send-keys", "-t", "top", f"echo be''fore; {command}; echo ended $?", "Enter")
            shows("deadlock: ", "MPI_Recv", "sorted by rank", "job 1 of 1")
            for key, wanted in (("s", "sorted by wait"), ("h", "the next job"), ("h", "MPI_Recv"), ("p", "p paused")):
                tmux(name, "send-keys", "-t", "top", key)
                shows(wanted)
            tmux(name, "resize-window", "-t", "top", "-x", "200", "-y", "30")
            shows("tag  communicator", "memory")
            tmux(name, "send-keys", "-t", "top", "q")
            shows("before", "ended 0")
            tmux(name, "send-keys", "-t", "top", f"clear; {command}", "Enter")
            shows("sorted by rank")
            tmux(name, "send-keys", "-t", "top", "C-c")
            tmux(name, "send-keys", "-t", "top", "echo ended $?", "Enter")
            shows("ended 130")
        finally:
            tmux(name, "kill-server")


def watchers(host) -> None:
    binary = str(binary_of(host, SOURCE))
    for words in ([binary, "two"], ["sh", "-c", f"'{binary}' two; true"]):
        with started(host, *words, run=("--hang-report", "2s")) as job:
            end = time.monotonic() + PATIENCE_S
            while "deadlock: " not in job.errors.read_text() and time.monotonic() < end:
                time.sleep(0.2)
            time.sleep(4)
            said = job.errors.read_text()
            expect(
                said.count("nothing has moved for") == 1 and said.count("zerohop: deadlock: 0 waits in MPI_Recv") == 1,
                said,
            )
            expect("rank 0: waiting in MPI_Recv for a message of 1 (tag 7, MPI_COMM_WORLD)" in said, said)
            expect("ranks 2,3: computing" in said, said)
        expect(not processes_with(job.token), "the watcher stays")


def polls_in_vain(host) -> None:
    with program(host, "polls", run=("--hang-report", "2s")) as job:
        look = job.until(lambda look: [r["state"] for r in look["ranks"][:2]] == ["polling", "polling"])
        expect(look["ranks"][0]["polls_seconds"] >= 0 and look["ranks"][2]["state"] == "computing", look["ranks"])
        end = time.monotonic() + PATIENCE_S
        while "ranks 0,1: polling in vain" not in job.errors.read_text():
            expect(time.monotonic() < end, job.errors.read_text())
            time.sleep(0.2)


def watchers_keep_nobody_waiting(host) -> None:
    wait = "import os, sys\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: sys.exit(0)\nsys.exit(1)"
    for words in ([str(binary_of(host, SOURCE)), "end"], [sys.executable, "-c", wait]):
        quiet = launch(host, Placement(RANKS), [str(ZEROHOP.command), "run", "--hang-report", "1m", *words], PATIENCE_S)
        expect(quiet.code == 0 and not quiet.timed_out and quiet.output == "", quiet)


CASES = (
    deadlocks,
    culprits,
    stopped_and_killed,
    tables_and_exit_codes,
    screens,
    watchers,
    polls_in_vain,
    watchers_keep_nobody_waiting,
)


def main() -> int:
    def why_not(case) -> str:
        return "no tmux" if case is screens and shutil.which("tmux") is None else ""

    return run_cases(__doc__, ZEROHOP, CASES, lambda case, host: case(host), why_not)


if __name__ == "__main__":
    sys.exit(main())
