"""Starts one MPI job, bounds its time, and sees that nothing of it stays. Knows hosts and zerohop, no test program."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from machines import launcher
from machines.placement import Placement

TOKEN = "ZH_TEST_JOB"  # every process of a job carries it in its environment


@dataclasses.dataclass(frozen=True)
class Zerohop:
    """How zerohop gets into a job: `run` (the command after the launcher) or `preload` (the variable)."""

    root: Path  # build folder with bin/zerohop and lib/libzerohop.so
    via: str = "run"

    @property
    def library(self) -> Path:
        return self.root / "lib" / "libzerohop.so"

    @property
    def command(self) -> Path:
        return self.root / "bin" / "zerohop"

    def missing(self) -> str:
        """What is not built, or nothing."""
        needed = [self.library] if self.via == "preload" else [self.library, self.command]
        return ", ".join(str(path) for path in needed if not path.exists())

    def prefix(self) -> list[str]:
        if self.via == "preload":
            return ["env", f"LD_PRELOAD={self.library}"]
        return [str(self.command), "run"]


def with_setting(env: dict[str, str], name: str, value: str) -> dict[str, str]:
    """`env` with one more setting in ZEROHOP_CONFIG."""
    before = env.get("ZEROHOP_CONFIG", "")
    return env | {"ZEROHOP_CONFIG": f"{before},{name}={value}" if before else f"{name}={value}"}


@dataclasses.dataclass
class Outcome:
    code: int
    output: str
    seconds: float
    timed_out: bool

    def tail(self, lines: int = 25) -> str:
        return "\n".join(self.output.splitlines()[-lines:])


def processes_with(token: str) -> list[int]:
    """Process ids whose environment carries this job's token."""
    wanted, found = f"{TOKEN}={token}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_all(process: subprocess.Popen, token: str) -> None:
    """Ends the launcher's process group, then whatever of the job moved into another one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=3)
            break
    for pid in processes_with(token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def job(host, placement: Placement, program: list[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command line that starts `program` and its variables; the nodes that it needs last as long as the context."""
    if not placement.machines:
        yield host.command(placement.ranks, *program), {}
        return
    with launcher.job(host, placement, *program) as started:
        yield started


def launch(
    host, placement: Placement, program: list[str], timeout_s: float, zerohop: Zerohop | None = None, **env: str
) -> Outcome:
    """Runs `program` under `host`; output is stdout and stderr together.

    The output goes through a file: a rank that outlives its launcher cannot hold a pipe open.
    """
    token = uuid.uuid4().hex
    start = time.monotonic()
    words = [*(zerohop.prefix() if zerohop else []), *program]
    with tempfile.TemporaryFile() as file, job(host, placement, words) as (command, variables):
        process = subprocess.Popen(
            command,
            env=host.environment(**{TOKEN: token}, **{**variables, **env}),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.poll() is None or processes_with(token):
                end_all(process, token)
        file.seek(0)
        output = file.read().decode(errors="replace")
    return Outcome(process.returncode, output, time.monotonic() - start, timed_out)
