#!/usr/bin/env python3
"""Jobs of ranks on the heap: forks while messages are under way, initialised data, a rank that is killed.

tests/heap/mpi_cases.py <case>      (ctest runs each; ZH_HEAP_MODE says how)
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from support import BIN, ROOT, case, environment, expect, main, processes_of, skip

sys.path.insert(0, str(ROOT / "dev"))

import hosts as mpi_hosts

MODE = os.environ.get("ZH_HEAP_MODE", "on")
PROGRAM = str(Path(__file__).resolve().parent / "mpi_fork_program.py")
LATE_PROGRAM = str(Path(__file__).resolve().parent / "mpi_late_program.py")
GLOBALS = BIN.parent / "lib" / "libzh_heap_globals.so"
TIMEOUT_S = 60


def start(
    name: str, ranks: int, *arguments: str, mark: str = "", program: str = PROGRAM, behind: tuple[str, ...] = ()
) -> subprocess.Popen:
    hosts = {h.name: h for h in mpi_hosts.hosts()}
    if name not in hosts:
        skip(f"{name} is not installed (dev/setup)")
    host = hosts[name]
    env = environment(MODE, launched=False) | host.env
    env["ZH_TEST_MARK"] = mark
    # Buffers become shared at their second use, and messages of them are mapped, short as they are.
    env |= {"ZEROHOP_HEAP": "1", "ZEROHOP_CONFIG": "single_copy=16K"}
    env["OPENBLAS_NUM_THREADS"] = "1"
    env["NUMPY_MADVISE_HUGEPAGE"] = "0"  # memory in huge pages stays private where shared memory has none
    # The launcher itself is not preloaded; the ranks are.
    preload = " ".join(filter(None, (env.pop("LD_PRELOAD", ""), str(GLOBALS))))
    command = host.command(ranks, *behind, "env", f"LD_PRELOAD={preload}", host.python, program, *arguments)
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(job: subprocess.Popen) -> tuple[int, str, str]:
    try:
        said, errors = job.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        said, errors = job.communicate()
        expect(False, f"the job hangs; it said {said!r}, {errors[-500:]!r}")
    return job.returncode, said, errors


def forks(name: str, ranks: int) -> None:
    code, said, errors = finish(start(name, ranks))
    expect(code == 0 and "done" in said, f"{name}, {ranks} ranks: exit code {code}: {said[-500:]}{errors[-500:]}")
    where = re.search(r"served (\d) data (\d)", said)
    expect(where is not None, f"the program said {said!r}")
    # The forks make what messages shared private again, and a library's initialised data is a file's.
    expect(where[1] == "1", f"{name}: arrays that messages have used are not shared")
    expect(where[2] == "0", f"{name}: initialised data of a library is shared")


@case
def forks_under_mpich():
    forks("mpich", 2)


@case
def forks_under_openmpi():
    forks("openmpi", 2)


@case
def forks_of_three_ranks_under_openmpi():
    forks("openmpi", 3)


@case
def forks_under_impi():
    forks("impi", 2)


@case
def a_library_loaded_before_mpi_stays_out():
    # It may be unloaded later, and something else be mapped where it was.
    with tempfile.TemporaryDirectory() as folder:
        library = shutil.copy(GLOBALS, Path(folder) / "liblate.so")
        code, said, errors = finish(start("mpich", 2, str(library), program=LATE_PROGRAM))
    expect(code == 0 and "done" in said, f"exit code {code}: {said}{errors[-500:]}")
    expect("late 0" in said and "late 1" not in said, f"the program said {said!r}")


@case
def ranks_in_pid_namespaces_of_their_own():
    # As with one container for each rank: a peer's pid names another process here, or none.
    behind = ("unshare", "--fork", "--pid", "--mount-proc")
    if subprocess.run([*behind, "true"], capture_output=True, check=False).returncode != 0:
        skip("no PID namespaces may be made here")
    code, said, errors = finish(start("mpich", 2, program=LATE_PROGRAM, behind=behind))
    expect(code == 0 and "done" in said, f"exit code {code}: {said}{errors[-500:]}")


def killed(name: str) -> None:
    mark, before = f"mark-{uuid.uuid4()}", set(os.listdir("/dev/shm"))
    code, said, errors = finish(start(name, 2, "die", mark=mark))
    expect(code != 0, f"{name}: the job ended well although a rank was killed: {said}{errors}")
    deadline = time.monotonic() + 15
    while processes_of(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = processes_of(mark)
    expect(not left, f"{name}: processes left: {left}")
    # Without a process of the job there is no holder of its memory files either. Hosts may leave their own segments.
    after = {f for f in set(os.listdir("/dev/shm")) - before if "zerohop" in f or f.startswith("zh")}
    expect(not after, f"{name}: left in /dev/shm: {after}")


@case
def a_killed_rank_under_mpich():
    killed("mpich")


@case
def a_killed_rank_under_openmpi():
    killed("openmpi")


if __name__ == "__main__":
    sys.exit(main())
