"""A rank dies by SIGKILL in the middle of a transfer: the job must end soon, and nothing of it may stay behind."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
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


@dataclasses.dataclass(frozen=True)
class Plan:
    name: str
    scenario: str
    victim: int  # rank, or -1
    env: dict[str, str] = dataclasses.field(default_factory=dict)


# Mid-transfer, while all the others wait for the victim, amid collectives.
PLANS = (
    Plan("endless.first", "endless", 0),
    Plan("endless.last", "endless", -1),
    Plan("endless_wait.first", "endless_wait", 0),
    Plan("endless_collectives.first", "endless_collectives", 0),
    Plan("endless_collectives.last", "endless_collectives", -1),
)
# Amid each collective that nodes share: the leader of the first node, its second rank, and the root, which leads none.
SPANNING = ("bcast", "reduce", "allreduce", "allgather", "barrier")
ALGORITHMS = {"default": {}, "host_leaders": {"ZEROHOP_ALGORITHM": "{}:host-leaders"}}
VICTIMS = {"leader": 0, "member": 1, "root": -1}


def spanning_plans() -> Iterator[Plan]:
    for collective in SPANNING:
        for algorithm, variables in ALGORITHMS.items():
            env = {name: value.format(collective) for name, value in variables.items()}
            for role, victim in VICTIMS.items():
                yield Plan(f"nodes.{collective}.{algorithm}.{role}", f"endless_{collective}", victim, env)


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


@dataclasses.dataclass
class Killed:
    """What became of a job of which one rank was killed."""

    no_kill: str = ""  # why there was nothing to kill
    code: int | None = None  # the launcher's; none if it had to be ended
    seconds: float = 0  # from the kill until nothing of the job ran any more
    processes: list[int] = dataclasses.field(default_factory=list)  # what still ran after the time limit
    files: list[str] = dataclasses.field(default_factory=list)
    output: str = ""

    def foreign_files(self) -> list[str]:
        """What a host is known to leave may not hide what zerohop leaves."""
        return [name for name in self.files if not name.rsplit("/", 1)[-1].startswith(HOST_FILES)]


def kill_job(
    command: list[str],
    env: dict[str, str],
    ranks: int,
    victim: int,
    after_s: float,
    end_within_s: float = END_TIMEOUT_S,
) -> Killed:
    """Starts a job whose ranks say "pid RANK PID" and later "running", kills one `after_s` seconds after that."""
    token = uuid.uuid4().hex
    own_shm = own_shm_possible()
    folder = Path(tempfile.mkdtemp(prefix="zh-crash-", dir="/tmp"))
    result = Killed()
    try:
        (folder / "tmp").mkdir()
        left_list = folder / "left"
        env = {**env, TOKEN: token, "TMPDIR": str(folder / "tmp"), "ZH_TEST_LEFT": str(left_list)}
        before = shm_files()
        if own_shm:
            command = ["unshare", "-m", "sh", "-c", _WRAPPER, "sh", *command]
        with (folder / "output").open("w+b") as output:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            try:
                _kill_and_wait(process, folder, ranks, victim, after_s, end_within_s, token, result)
            finally:
                if process.poll() is None or processes_with(token):
                    end_all(process, token)
                result.output = text_of(folder)
        left = left_list.read_text().split() if own_shm and left_list.exists() else sorted(shm_files() - before)
        temporary = sorted(str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*") if not path.is_dir())
        result.files = [f"/dev/shm/{name}" for name in left] + temporary
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kill_and_wait(process, folder: Path, ranks: int, victim: int, after_s, end_within_s, token, result) -> None:
    pids = wait_until_running(process, folder / "output", ranks)
    if pids is None:
        result.no_kill = f"no transfer within {BEGIN_TIMEOUT_S} s: {text_of(folder)[-300:]}"
        return
    time.sleep(after_s)  # into the traffic; nothing is judged by it
    killed = pids[victim % ranks]
    if killed not in processes_with(token):  # never a stranger who got the number meanwhile
        result.no_kill = f"the job ended by itself: {text_of(folder)[-300:]}"
        return
    os.kill(killed, signal.SIGKILL)
    start = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        result.code = process.wait(timeout=end_within_s)
    while (stay := processes_with(token)) and time.monotonic() - start < end_within_s:
        time.sleep(0.05)
    result.processes, result.seconds = stay, time.monotonic() - start


def kill_one(setting: Setting, plan: Plan, log: list[str]) -> dict[str, Test]:
    """Runs one plan; the tests are that the job ends, that no process stays, and that no file stays."""
    prefix = setting.zerohop.prefix() if setting.zerohop else []
    build = semantics_binary if plan.scenario in ("endless", "endless_wait") else collectives_binary
    command = setting.host.command(setting.ranks, *prefix, build(setting.host), "--scenario", plan.scenario)
    environment = setting.host.environment(**setting.env, **plan.env)
    killed = kill_job(command, environment, setting.ranks, plan.victim, 0.05)
    log.append(killed.output)
    if killed.no_kill:
        return {"begins": Test("fail", killed.no_kill)}
    if killed.code is None:
        return {"ends": Test("fail", f"{END_TIMEOUT_S} s after the kill the job still runs")}
    log.append(f"{plan.name}: ended after {killed.seconds:.1f} s")
    tests = {"ends": Test("ok") if killed.code else Test("fail", "the launcher's exit code is 0")}
    for name, stays in (
        ("no_process_stays", killed.processes),
        ("no_file_stays", killed.files),
        ("no_other_file_stays", killed.foreign_files()),
    ):
        tests[name] = Test("fail", ", ".join(map(str, stays))[:300]) if stays else Test("ok")
    return tests


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
    for plan in (*PLANS, *(spanning_plans() if spans(setting) else ())):
        name = f"crash.{plan.name}"
        if setting.only and not fnmatch.fnmatch(name, setting.only):
            continue
        for part, test in kill_one(setting, plan, log).items():
            # Those that nodes share have no run of the host alone to excuse what it leaves.
            if part != "no_file_stays" or plan in PLANS:
                results[f"{name}.{part}"] = test
    return results


def spans(setting: Setting) -> bool:
    """Whether zerohop has nodes of several ranks to lead."""
    return setting.zerohop is not None and 2 <= setting.placement.node_ranks < setting.ranks


def crash_program() -> Program:
    return Program("crash", _run, [*C_SOURCES, *COLL_SOURCES, Path(__file__), HERE / "matrix" / "launch.py"], cost=1)
