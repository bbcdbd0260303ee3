"""A rank dies by SIGKILL in the middle of a transfer: the job must end soon, and nothing of it may stay behind."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from matrix.launch import TOKEN, end_all, processes_with
from matrix.programs import (
    C_SOURCES,
    COLL_SOURCES,
    HERE,
    Program,
    Setting,
    collectives_binary,
    semantics_binary,
)
from matrix.results import Results, Test

BEGIN_TIMEOUT_S = 90  # Intel MPI at twice as many ranks as processors, under load
END_TIMEOUT_S = 20
# (scenario, victim as index from 0 or -1): mid-transfer, while all the others wait for the victim, amid collectives.
PLANS = (
    ("endless", 0),
    ("endless", -1),
    ("endless_wait", 0),
    ("endless_collectives", 0),
    ("endless_collectives", -1),
)

# Names by which the hosts call their own segments and folders.
HOST_FILES = ("mpich_", "Intel_MPI", "sm_segment", "vader_segment", "ompi.", "prte.", "pmix")

# The job gets an empty /dev/shm of its own where we may mount one: what is left there is then certainly its own.
_WRAPPER = 'mount -t tmpfs tmpfs /dev/shm && "$@"; code=$?; ls -A /dev/shm > "$ZH_TEST_LEFT"; exit $code'


def own_shm_possible() -> bool:
    if not shutil.which("unshare"):
        return False
    probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm"], capture_output=True)
    return probe.returncode == 0


def shm_files() -> set[str]:
    return set(os.listdir("/dev/shm"))


def kill_one(setting: Setting, scenario: str, victim: int, log: list[str]) -> dict[str, Test]:
    """Runs one plan; the tests are that the job ends, that no process stays, and that no file stays."""
    token = uuid.uuid4().hex
    prefix = setting.zerohop.prefix() if setting.zerohop else []
    build = collectives_binary if scenario == "endless_collectives" else semantics_binary
    command = setting.host.command(setting.ranks, *prefix, build(setting.host), "--scenario", scenario)
    own_shm = own_shm_possible()
    folder = Path(tempfile.mkdtemp(prefix="zh-crash-", dir="/tmp"))
    try:
        (folder / "tmp").mkdir()
        left_list = folder / "left"
        env = setting.host.environment(**setting.env, **{TOKEN: token}, TMPDIR=str(folder / "tmp"),
                                       ZH_TEST_LEFT=str(left_list))  # fmt: skip
        before = shm_files()
        if own_shm:
            command = ["unshare", "-m", "sh", "-c", _WRAPPER, "sh", *command]
        with (folder / "output").open("w+b") as output:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            try:
                pids = wait_until_running(process, folder / "output", setting.ranks)
                if pids is None:
                    return {"begins": Test("fail", f"no transfer within {BEGIN_TIMEOUT_S} s: {text_of(folder)[-300:]}")}
                time.sleep(0.05)  # into the traffic; nothing is judged by it
                killed = pids[victim % setting.ranks]
                if killed not in processes_with(token):  # never a stranger who got the number meanwhile
                    return {"begins": Test("fail", f"the job ended by itself: {text_of(folder)[-300:]}")}
                os.kill(killed, signal.SIGKILL)
                start = time.monotonic()
                try:
                    process.wait(timeout=END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    return {"ends": Test("fail", f"{END_TIMEOUT_S} s after the kill the job still runs")}
                tests = {"ends": Test("ok") if process.returncode else Test("fail", "the launcher's exit code is 0")}
                log.append(f"{scenario} {victim}: ended after {time.monotonic() - start:.1f} s")
                while (stay := processes_with(token)) and time.monotonic() - start < END_TIMEOUT_S:
                    time.sleep(0.05)
                tests["no_process_stays"] = Test("fail", f"processes {stay}") if stay else Test("ok")
            finally:
                if process.poll() is None or processes_with(token):
                    end_all(process, token)
                log.append(text_of(folder))
        left = left_list.read_text().split() if own_shm else sorted(shm_files() - before)
        temporary = sorted(str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*") if not path.is_dir())
        files = [f"/dev/shm/{name}" for name in left] + temporary
        tests["no_file_stays"] = Test("fail", ", ".join(files)[:300]) if files else Test("ok")
        # What a host is known to leave may not hide what zerohop leaves.
        foreign = [name for name in files if not name.rsplit("/", 1)[-1].startswith(HOST_FILES)]
        tests["no_other_file_stays"] = Test("fail", ", ".join(foreign)[:300]) if foreign else Test("ok")
        return tests
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def text_of(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")


def wait_until_running(process: subprocess.Popen, output: Path, ranks: int) -> dict[int, int] | None:
    start = time.monotonic()
    while time.monotonic() - start < BEGIN_TIMEOUT_S and process.poll() is None:
        pids, running = {}, False
        for line in output.read_text(errors="replace").splitlines():
            words = line.split()
            with contextlib.suppress(ValueError):
                if len(words) == 3 and words[0] == "pid":
                    pids[int(words[1])] = int(words[2])
            running = running or words == ["running"]
        if running and len(pids) == ranks:
            return pids
        time.sleep(0.02)
    return None


def _run(setting: Setting, log: list[str]) -> Results:
    results: Results = {}
    if setting.ranks < 2:
        return {"crash": Test("skip", "needs 2 ranks")}
    for scenario, victim in PLANS:
        name = f"crash.{scenario}.{'first' if victim == 0 else 'last'}"
        if setting.only and not fnmatch.fnmatch(name, setting.only):
            continue
        for part, test in kill_one(setting, scenario, victim, log).items():
            results[f"{name}.{part}"] = test
    return results


def crash_program() -> Program:
    return Program("crash", _run, [*C_SOURCES, *COLL_SOURCES, Path(__file__), HERE / "matrix" / "launch.py"], cost=1)
