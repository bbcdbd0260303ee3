"""Ranks that are killed or stopped in the middle of traffic, and what becomes of the others."""

from __future__ import annotations

import dataclasses
import mmap
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from jobs import ROOT, TRAFFIC, ZEROHOP, Case, program

from matrix.crash_program import Killed, kill_job, wait_until_running  # isort: skip
from matrix.launch import TOKEN, end_all, processes_with  # isort: skip
from matrix.programs import collectives_binary, semantics_binary  # isort: skip

FORK_WORLD = "processes without MPI"
END_WITHIN_S = 60  # then the job is said to hang; how long it took is measured, not judged: machines are busy

# Options with which a launcher lets the others live when a rank dies, so that they must be told. MPICH's ends itself.
LET_LIVE = {"openmpi": ["--continuous"], "impi": ["-disable-auto-cleanup"]}


@dataclasses.dataclass
class Row:
    """Kills of one kind, added up over runs."""

    where: str
    traffic: str
    kills: int = 0
    survivors: int = 0
    told: int = 0  # survivors that were given the host's error before the launcher ended them
    longest_s: float = 0
    late: int = 0  # jobs that had not ended in time
    processes: int = 0
    files: int = 0
    host_files: int = 0  # left behind by the host itself
    not_begun: int = 0

    def add(self, other: Row) -> None:
        for field in dataclasses.fields(self)[2:]:
            mine, more = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, max(mine, more) if field.name == "longest_s" else mine + more)

    def bad(self) -> int:
        return self.late + self.processes + self.files + self.not_begun


def add_up(rows: list[Row], more: Row) -> None:
    for row in rows:
        if (row.where, row.traffic) == (more.where, more.traffic):
            row.add(more)
            return
    rows.append(more)


# What goes on when the rank dies: name, program and arguments, whether the others live on, whether rank 0 dies.
TRAFFIC_KINDS: list[tuple[str, Callable[[object], list[str]], bool, bool]] = [
    ("messages of all sizes, wildcards, collectives", lambda h: [program(h, TRAFFIC), "rounds", "0"], False, False),
    ("the same, errors returned", lambda h: [program(h, TRAFFIC), "rounds", "0", "return"], True, False),
    ("ring of three sizes", lambda h: [semantics_binary(h), "--scenario", "endless"], False, False),
    ("all wait for the victim", lambda h: [semantics_binary(h), "--scenario", "endless_wait"], False, True),
    ("collectives", lambda h: [collectives_binary(h), "--scenario", "endless_collectives"], False, False),
]


def judge(killed: Killed, row: Row, ranks: int, let_live: bool) -> str:
    """Adds one kill to its row; says what was wrong, or nothing."""
    if killed.no_kill:
        row.not_begun += 1
        return killed.no_kill
    row.kills += 1
    row.survivors += ranks - 1
    told = sum(line.startswith("told rank ") for line in killed.output.splitlines())
    row.told += told
    row.longest_s = max(row.longest_s, killed.seconds)
    # A launcher that was asked to go on may end without an error.
    late = killed.code is None or (killed.code == 0 and not let_live)
    row.late += late
    row.processes += len(killed.processes)
    foreign = killed.foreign_files()
    row.files += len(foreign)
    row.host_files += len(killed.files) - len(foreign)
    wrong = [f"ended with {killed.code} after {killed.seconds:.1f} s"] if late else []
    wrong += [f"processes {killed.processes}"] if killed.processes else []
    wrong += [f"files {foreign}"] if foreign else []
    if "WRONG" in killed.output:
        row.late += 1
        wrong.append("wrong data")
    return "; ".join(wrong)


def mpi_kill(hosts: list, draw: random.Random) -> tuple[Row, str]:
    """One job, one kill."""
    host = draw.choice(hosts)
    kinds = [kind for kind in TRAFFIC_KINDS if not kind[2] or host.name in LET_LIVE]
    name, words, let_live, first = draw.choice(kinds)
    ranks = draw.choice((2, 3, 3, 4))
    env = {"ZEROHOP_CMA": draw.choice("01"), "ZEROHOP_HEAP": draw.choice(("0", "auto"))}
    victim = 0 if first else draw.randrange(ranks)
    after_s = 10 ** draw.uniform(-3.5, -0.3)
    live = LET_LIVE.get(host.name, []) if let_live else []
    launcher = dataclasses.replace(host, mpiexec=[*host.mpiexec, *live])
    command = launcher.command(ranks, *ZEROHOP.prefix(), *words(host))
    row = Row(host.name, name)
    wrong = judge(
        kill_job(command, host.environment(**env), ranks, victim, after_s, END_WITHIN_S), row, ranks, bool(live)
    )
    what = f"{host.name}, {name}, {ranks} ranks, victim {victim}, after {after_s * 1000:.1f} ms, {env}"
    return row, f"{what}: {wrong}" if wrong else ""


def fork_kills(count: int, seed: int) -> tuple[Row, str]:
    """Kills among processes that use the engine without MPI: no launcher, so many more fit into a minute."""
    row = Row(FORK_WORLD, "messages, collectives")
    binary = ROOT / "build" / "bin" / "test_crash"
    env = {**os.environ, "ZH_KILLS": str(count), "ZH_SEED": str(seed)}
    command = [str(binary), "--gtest_filter=CrashRandom.*"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    found = re.search(r"(\d+) kills, the others ended within ([\d.]+) s", ran.stdout)
    if found:
        row.kills, row.longest_s = int(found[1]), float(found[2])
        row.survivors = row.told = 2 * row.kills
    if ran.returncode == 0 and found:
        return row, ""
    row.late += 1
    return row, f"{' '.join(command)} with ZH_SEED={seed}: {ran.stdout[-800:]}{ran.stderr[-300:]}"


def stop_rank(host, stops: int) -> Case:
    """Two pairs of ranks; one rank of the second is stopped again and again."""
    ranks, victim, token = 4, 2, uuid.uuid4().hex
    result = Case("stops", "a stopped rank delays only the one that waits for it", host.name, "failed", "")
    with tempfile.TemporaryDirectory(prefix="zh-stop-") as folder, open(Path(folder) / "counts", "w+b") as file:
        file.truncate(4096)
        counts = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
        command = host.command(ranks, *ZEROHOP.prefix(), program(host, TRAFFIC), "pairs", file.name)
        output = Path(folder) / "output"
        with output.open("w+b") as out:
            process = subprocess.Popen(command, env=host.environment(**{TOKEN: token}), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            try:
                pids = wait_until_running(process, output, ranks)
                if pids is None or pids[victim] not in processes_with(token):
                    result.note = "did not begin"
                    return result
                for index in range(stops):
                    if wrong := _stop_once(pids[victim], counts, 0.001 * (index % 7)):
                        result.note = f"stop {index}: {wrong}"
                        return result
                counts[511] = 1
                code = process.wait(timeout=60)
                said = output.read_text().count("ok rank ")
                good = code == 0 and said == ranks
                result.status = "passed" if good else "failed"
                result.note = f"{stops} stops" if good else f"exit code {code}, {said} ranks said ok"
            except subprocess.TimeoutExpired:
                result.note = "did not end after the last stop"
            finally:
                if process.poll() is None or processes_with(token):
                    end_all(process, token)
    return result


def _stop_once(pid: int, counts: memoryview, pause_s: float) -> str:
    time.sleep(pause_s)
    os.kill(pid, signal.SIGSTOP)
    try:
        while "State:\tT" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.001)
        before = list(counts[:4])
        if not _reaches(counts, 0, before[0] + 30) or not _reaches(counts, 1, before[1] + 30):
            return "ranks that have nothing to do with the stopped one did not go on"
        if counts[3] > before[3] + 1:
            return "the partner of the stopped rank went on"
    finally:
        os.kill(pid, signal.SIGCONT)
    if not _reaches(counts, 2, before[2] + 5) or not _reaches(counts, 3, before[3] + 5):
        return "the stopped rank and its partner did not go on afterwards"
    return ""


def _reaches(counts: memoryview, rank: int, value: int) -> bool:
    deadline = time.monotonic() + 60
    while counts[rank] < value:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
