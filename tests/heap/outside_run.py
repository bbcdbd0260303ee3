"""One run of a program of others for tests/heap/outside.py: its environment, its processes, and what it said."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import struct
import subprocess
import time
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

from support import LIBRARY, TORTURE, environment, processes_of

COUNTS = struct.Struct("7Q")  # struct Counts of torture_preload.c

# What a run said: names of tests or lines, and "passed", "failed", "skipped" or the text that must be the same.
Results = dict[str, str]


class Missing(Exception):
    """Why a program cannot run here."""


class Untouched(Exception):
    """Why a run that went well proves nothing."""


class Wrong(Exception):
    """What went wrong with a run as a whole."""


@dataclasses.dataclass
class Part:
    program: str
    name: str
    seconds: float  # that one run takes, roughly
    run: Callable[[Run], Results]
    quick: bool = False
    # Its work is done in forked children, where the library shares nothing: then the torture is skipped, not failed.
    forked: bool = False
    # The library must share nothing of it: that it refuses is what is tested.
    refused: bool = False

    @property
    def title(self) -> str:
        return f"{self.program}: {self.name}"


@dataclasses.dataclass
class Run:
    """One part in one mode: its folder, its environment, and the processes that it starts."""

    part: Part
    mode: str
    folder: Path
    deadline: float
    loaded: bool = False
    preload: str = ""
    env: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mark = f"mark-{uuid.uuid4()}"
        self.counts = self.folder / "torture-counts"
        self.counts.write_bytes(bytes(4096))
        self.counts.chmod(0o666)
        self.env = environment("bare") | {
            "ZH_TEST_MARK": self.mark,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
        }
        self.env |= {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        if self.mode == "plain":
            return
        self.preload = LIBRARY if self.mode == "on" else f"{TORTURE}:{LIBRARY}"
        self.env["LD_PRELOAD"] = self.preload
        if self.mode == "torture":
            self.env["ZH_TORTURE_COUNTS"] = str(self.counts)

    def call(self, *command: str | Path, name: str = "output", **options) -> tuple[int, str]:
        """Runs a command; its exit code (minus a signal's number) and all that it said."""
        log = self.folder / f"{name}.txt"
        options = {"cwd": self.folder, "env": self.env} | options
        with log.open("ab") as out:
            start = out.tell()
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, **options,
            )  # fmt: skip
            pause = 0.005
            try:
                while process.poll() is None:
                    if time.monotonic() > self.deadline:
                        raise Wrong(f"time is up in {Path(command[0]).name}")
                    if self.preload and not self.loaded:
                        self.loaded = any(map(has_library, [process.pid, *descendants(process.pid)]))
                    time.sleep(pause)
                    pause = min(pause * 1.3, 0.1)
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        with log.open(errors="replace") as text:
            text.seek(start)
            return process.returncode, text.read()

    def expect(self, *command: str | Path, **options) -> str:
        code, said = self.call(*command, **options)
        if code != 0:
            raise Wrong(f"{Path(command[0]).name} ended with {code}: {said[-600:]}")
        return said

    def end(self) -> None:
        """Ends what the program left behind: only processes that carry this run's mark."""
        for pid in processes_of(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def torture_counts(self) -> dict[str, int]:
        names = ("processes", "blocks", "shared", "bytes", "used", "refused", "refusal")
        return dict(zip(names, COUNTS.unpack(self.counts.read_bytes()[: COUNTS.size]), strict=True))


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    except OSError:
        pass  # it has just ended
    return found


def has_library(pid: int) -> bool:
    try:
        return Path(LIBRARY).name in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def lines_of(text: str) -> Results:
    """Each line `what it is: value` or `what it is <last word>` by its first words."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        found[name or line] = value
    return found


def junit(path: Path, code: int, said: str) -> Results:
    """Test by test from the report that pytest and CPython's runner write."""
    try:
        cases = list(ET.parse(path).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        raise Wrong(f"ended with {code} and left no report: {said[-800:]}") from None
    results: Results = {}
    for case in cases:
        tags = {child.tag for child in case}
        verdict = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        name = f"{case.get('classname', '')}.{case.get('name')}".lstrip(".")
        # A name that comes twice has passed only if both have.
        results[name] = "failed" if "failed" in (verdict, results.get(name)) else verdict
    if code < 0:
        raise Wrong(f"ended by signal {-code}: {said[-800:]}")
    return results
