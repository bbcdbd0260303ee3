#!/usr/bin/env python3
"""The file of ZEROHOP_STATS says what a program did, by what the program says itself, however the job ends.

    tests/mpi/statistics.py [--host NAME]... [--only NAME]

Counts of every collective and form by number of members, messages and bytes; MPI_Abort; a rank that is killed; names
with the job, the rank and the process; a file that cannot be written; a path with a blank. And ZEROHOP_LOG=debug tells
which way calls and messages went. Tables of algorithms and variables choose in their order. Closing line:
`N passed, N failed, N skipped`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Outcome, Zerohop, launch  # noqa: E402
from matrix.programs import binary_of  # noqa: E402
from matrix.script import expect, run_cases  # noqa: E402

SOURCE = HERE / "statistics" / "program.c"
ZEROHOP = Zerohop(ROOT / "build")
PRELOADED = Zerohop(ROOT / "build", "preload")  # nobody looks at the name before the job
RANKS = 4
TIMEOUT_S = 120
VERSION = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel"}

Calls = dict[tuple[str, int], tuple[int, int]]


@dataclasses.dataclass
class Job:
    outcome: Outcome
    calls: dict[int, Calls]  # of each rank, what it says that it called
    sent: dict[int, tuple[int, int]]  # and its messages and bytes


def run(host, name: Path | str, end: str = "finalize", via: Zerohop = ZEROHOP, **env: str) -> Job:
    calls: dict[int, Calls] = {}
    sent = {}
    with tempfile.TemporaryDirectory(prefix="zh-said-") as folder:
        env = {"ZEROHOP_STATS": str(name), "SAID": f"{folder}/said", **env}
        outcome = launch(host, Placement(RANKS), [binary_of(host, SOURCE), end], TIMEOUT_S, via, **env)
        for path in Path(folder).iterdir():
            rank = int(path.suffix[1:])
            calls[rank] = {}
            for line in path.read_text().splitlines():
                function, *numbers = line.split()
                if function == "sent":
                    sent[rank] = (int(numbers[0]), int(numbers[1]))
                    continue
                members, n, size = map(int, numbers)
                old = calls[rank].get((function, members), (0, 0))
                calls[rank][function, members] = (old[0] + n, old[1] + size)
    return Job(outcome, calls, sent)


def read(path: Path) -> dict:
    expect(path.exists(), f"{path.name} was not written; there: {[p.name for p in path.parent.iterdir()]}")
    return json.loads(path.read_text())


def counted(rank: dict) -> Calls:
    """The same of one rank in the file, whatever the way."""
    found: Calls = {}
    for row in rank["calls"]:
        key = (row["call"], row["ranks"])
        old = found.get(key, (0, 0))
        found[key] = (old[0] + row["calls"], old[1] + row["bytes"])
    return found


def messages(rank: dict) -> tuple[int, int]:
    """Messages and bytes that the program sent: without those that collectives are made of."""
    rows = [row for rows in rank["sent"]["by_path"].values() for row in rows]
    inner = rank["sent"]["of_collectives"]
    return (
        sum(row["messages"] for row in rows) - inner["messages"],
        sum(row["bytes"] for row in rows) - inner["bytes"],
    )


def compare(document: dict, job: Job) -> None:
    calls, sent = job.calls, job.sent
    expect(len(calls) == RANKS and len(sent) == RANKS, f"the program did not say all: {job.outcome.tail(10)}")
    expect([rank["rank"] for rank in document["ranks"]] == list(range(RANKS)), "not all ranks are there")
    for rank in document["ranks"]:
        number = rank["rank"]
        got, wanted = counted(rank), calls[number]
        differing = {key for key in got.keys() | wanted.keys() if got.get(key) != wanted.get(key)}
        expect(not differing, f"rank {number}: {[(k, got.get(k), wanted.get(k)) for k in sorted(differing)]}")
        expect(messages(rank) == sent[number], f"rank {number} sent {messages(rank)}, not {sent[number]}")


def everything_is_counted(host, folder: Path) -> None:
    job = run(host, folder / "stats.json")
    expect(job.outcome.code == 0, job.outcome.tail())
    document = read(folder / "stats.json")
    compare(document, job)
    expect(document["end"] == "MPI_Finalize" and document["world_size"] == RANKS, document["end"])
    expect(VERSION[host.name] in document["host_version"], document["host_version"])
    expect(document["command"][1:] == ["finalize"], document["command"])
    expect(document["started"] <= document["written"], (document["started"], document["written"]))
    ways = {row["by"] for rank in document["ranks"] for row in rank["calls"]}
    expect("team" in ways and "ring" in ways, ways)
    expect(len(list(folder.iterdir())) == 1, list(folder.iterdir()))
    done = subprocess.run(
        [str(ZEROHOP.command), "doctor", "--json", "--stats", str(folder / "stats.json")],
        capture_output=True, text=True)  # fmt: skip
    left = {rank["fallbacks"].get("messages: on communicators of the MPI library alone") for rank in document["ranks"]}
    expect(left == {3}, f"messages on a communicator of the host: {left}")
    n = sum(row["messages"] for rank in document["ranks"] for rows in rank["sent"]["by_path"].values() for row in rows)
    served = next(check["finding"] for check in json.loads(done.stdout)["checks"] if check["name"] == "served")
    expect(f"{100 * n / (n + 3 * RANKS):.1f} % of {n + 3 * RANKS} messages" in served, served)
    read_back = json.loads(done.stdout)["collectives"]
    total = sum(calls for rank in document["ranks"] for calls, _ in counted(rank).values())
    expect(sum(row["calls"] for row in read_back) == total, f"doctor counts otherwise than {total}: {done.stdout}")


def times_stay_within_the_jobs(host, folder: Path) -> None:
    run(host, folder / "stats.json", ZEROHOP_CONFIG="stats_time=1")
    for rank in read(folder / "stats.json")["ranks"]:
        t = rank["time"]
        in_mpi = sum(call["seconds"] for call in t["calls"])
        expect(0 < in_mpi < 1.05 * t["wall_s"] and 0 <= t.get("without_processor_s", 0) < t["wall_s"], t)


def the_hosts_collectives_are_counted(host, folder: Path) -> None:
    # The persistent ones of Intel MPI end the job with an error, with and without zerohop.
    job = run(host, folder / "stats.json", ZEROHOP_COLLECTIVES="0", NO_PERSISTENT="1")
    expect(job.outcome.code == 0, job.outcome.tail())
    document = read(folder / "stats.json")
    compare(document, job)
    ways = {row["by"] for rank in document["ranks"] for row in rank["calls"]}
    expect(ways == {"host"}, ways)


def abort_leaves_a_file(host, folder: Path) -> None:
    job = run(host, folder / "stats.json", "abort")
    expect(job.outcome.code != 0, "exit code 0")
    document = read(folder / "stats.json")
    compare(document, job)
    found = (document["end"], document.get("abort_rank"), document.get("abort_code"))
    expect(found == ("MPI_Abort", 1, 7), found)


def a_killed_rank_is_in_the_file(host, folder: Path) -> None:
    job = run(host, folder / "stats.json", "kill")
    expect(job.outcome.code != 0 and not job.outcome.timed_out, f"exit code {job.outcome.code}: {job.outcome.tail()}")
    document = read(folder / "stats.json")
    compare(document, job)
    # The launcher may have ended the others before one of them could write again.
    expect(document["end"] in ("running", "a rank died"), document["end"])
    expect(("dead_ranks" in document) == (document["end"] == "a rank died"), document.get("dead_ranks"))


def each_rank_has_a_file(host, folder: Path) -> None:
    made = run(host, folder / "%j-%r-%p-100%%p.json", SLURM_JOB_ID="77")
    expect(made.outcome.code == 0, made.outcome.tail())
    names = sorted(path.name for path in folder.iterdir())
    expect(len(names) == RANKS, names)
    for rank, name in enumerate(names):
        job, number, pid, percent = name.split("-")
        expect(job == "77" and number == str(rank) and int(pid) > 1 and percent == "100%p.json", name)
        objects = read(folder / name)["ranks"]
        expect([entry["rank"] for entry in objects] == [rank], name)
        expect(counted(objects[0]) == made.calls[rank], f"{name} has other counts than the program")


def each_rank_names_the_same_job(host, folder: Path) -> None:
    run(host, folder / "%r.json", SLURM_JOB_ID="", PBS_JOBID="")
    expect(len({read(folder / f"{rank}.json")["job"] for rank in range(RANKS)}) == 1, "files of several jobs")


def abort_writes_every_ranks_file(host, folder: Path) -> None:
    job = run(host, folder / "%r.json", "abort")
    for rank in range(RANKS):
        document = read(folder / f"{rank}.json")
        expect(document["end"] == "MPI_Abort", f"rank {rank}: {document['end']}")
        expect([counted(entry) for entry in document["ranks"]] == [job.calls[rank]], f"rank {rank} has other counts")


def several_nodes_are_in_one_file(host, folder: Path) -> None:
    job = run(host, folder / "stats.json", ZEROHOP_CONFIG="node_ranks=2", NO_PERSISTENT="1")
    expect(job.outcome.code == 0, job.outcome.tail())
    ranks = read(folder / "stats.json")["ranks"]
    expect({entry["rank"]: counted(entry) for entry in ranks} == job.calls, "other counts than the program")


def names_of_jobs_differ(host, folder: Path) -> None:
    for _ in range(2):
        job = run(host, folder / "of %j.json", "nothing")
        expect(job.outcome.code == 0, job.outcome.tail())
    names = [path.name for path in folder.iterdir()]
    expect(len(names) == 2 and all(name.startswith("of ") for name in names), names)


def an_unwritable_file_is_told_at_once(host, folder: Path) -> None:
    path = folder / "not-there" / "stats.json"
    job = run(host, path, "abort")  # which no rank survives: only what was said before is there
    lines = [line for line in job.outcome.output.splitlines() if "statistics" in line]
    expect(len(lines) == 1 and str(path) in lines[0] and "No such file" in lines[0], job.outcome.tail())
    expect(len(job.sent) == RANKS, "the program did not run")


def files_of_the_users_stay(host, folder: Path) -> None:
    for name in ("0", "1"):
        (folder / f"{name}.json").write_text("1 2 3")
    for name, told in (("0.json", "0.json"), ("%r.json", "%r.json of rank 1")):
        job = run(host, folder / name, via=PRELOADED)
        expect(job.outcome.code == 0 and len(job.sent) == RANKS, job.outcome.tail())
        lines = [line for line in job.outcome.output.splitlines() if "statistics" in line]
        expect(len(lines) == 1 and f"{told}: that file is not one of zerohop's" in lines[0], job.outcome.tail())
    expect(all((folder / name).read_text() == "1 2 3" for name in ("0.json", "1.json")), "a file is another one")
    expect(read(folder / "2.json")["end"] == "MPI_Finalize", "a rank without a file keeps others from theirs")


def a_link_stays_one(host, folder: Path) -> None:
    link, target = folder / "stats.json", folder / "elsewhere.json"
    link.symlink_to(target)  # a file that is made, then one that is replaced
    for _ in range(2):
        job = run(host, link)
        expect(job.outcome.code == 0, job.outcome.tail())
        expect(link.is_symlink() and not target.is_symlink(), "the link was replaced")
        expect(read(target)["end"] == "MPI_Finalize", "the file behind the link")


def a_pipe_without_reader_is_told(host, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    job = run(host, folder / "pipe")
    expect(job.outcome.code == 0, job.outcome.tail())
    lines = [line for line in job.outcome.output.splitlines() if "statistics" in line]
    expect(len(lines) == 1 and "No such device" in lines[0], job.outcome.tail())


def the_debug_log_tells_each_decision_once(host, folder: Path) -> None:
    for level, wanted in (("debug", True), ("info", False)):
        job = run(host, folder / "s.json", ZEROHOP_LOG=level)
        expect(job.outcome.code == 0, job.outcome.tail())
        lines = [line for line in job.outcome.output.splitlines() if line.startswith("zerohop[0]: ")]
        for part in (
            "first message to rank 1",
            f"communicator of {RANKS} ranks",
            f"MPI_Allreduce of .* on {RANKS} ranks: team",
        ):
            found = [line for line in lines if re.search(part, line)]
            expect(bool(found) == wanted, f"{level}: {part!r} in {lines}")
            expect(len(found) == len(set(found)), f"told twice: {found}")


def the_users_threshold_is_in_the_log(host, folder: Path) -> None:
    job = run(host, folder / "stats.json", "nothing", ZEROHOP_LOG="info", ZEROHOP_CONFIG="single_copy=77K")
    ways = [line for line in job.outcome.output.splitlines() if ": to rank " in line]
    expect(ways, job.outcome.tail())
    expect(all("one copy from 77K" in way or "never (no CMA)" in way for way in ways), ways)


def who_asks_for_the_kernel_module_hears_why_not(host, folder: Path) -> None:
    for value, told in (("1", not os.path.exists("/dev/zerohop")), ("0", False), ("2", False)):
        job = run(host, folder / "stats.json", ZEROHOP_KERNEL=value)
        expect(job.outcome.code == 0, job.outcome.tail())
        lines = [line for line in job.outcome.output.splitlines() if "ZEROHOP_KERNEL" in line]
        expect(any("not obeyed: the kernel module is not loaded" in line for line in lines) == told, lines)
        expect((value == "2") == any("is not one of auto, 1, 0; using auto" in line for line in lines), lines)


def ablations_are_obeyed(host, folder: Path) -> None:
    def ranks(config: str, **env: str) -> list[dict]:
        config = f"single_copy=64K,{config}"
        job = run(host, folder / "stats.json", ZEROHOP_CONFIG=config, ZEROHOP_HEAP="0", **env)
        expect(job.outcome.code == 0, job.outcome.tail())
        return read(folder / "stats.json")["ranks"]

    for copier, nobody in (("receive", "by_sender"), ("receive", "by_both"), ("later", "by_both"), ("wait", "by_both")):
        copies = [rank["single_copies"] for rank in ranks(f"copier={copier}")]
        expect(any(copy["by_sender"] + copy["by_receiver"] for copy in copies), f"{copier}: {copies}")
        expect(all(copy[nobody] == 0 for copy in copies), f"{copier}: {nobody}: {copies}")
    for name, way in (("shmem-cyclic", "team"), ("ring", "ring")):
        for rank in ranks("queue_lock=coarse,keep_copies=0", ZEROHOP_ALGORITHM=f"allreduce:{name}"):
            ways = {row["by"] for row in rank["calls"] if row["call"] == "MPI_Allreduce"}
            expect(ways == {way}, f"allreduce:{name} by {ways}")


def tables_choose_the_algorithm(host, folder: Path) -> None:
    cache = {"ZEROHOP_CACHE": str(folder)}
    said = subprocess.run(
        [ZEROHOP.command, "info", "--json"], env=os.environ | cache, capture_output=True, text=True, check=True
    )
    info = json.loads(said.stdout)
    measured, modelled = (Path(info[key][host.abi]["path"]) for key in ("collectives", "collectives_by_model"))

    several = {"host-leaders", "leader-ring", "scatter-ring-allgather", "linear"}  # one node has others by default

    def uses(algorithm: str, **env: str) -> str:
        # Blocking calls of several nodes go by schedules.
        job = run(host, folder / "stats.json", ZEROHOP_CONFIG="node_ranks=2", NO_PERSISTENT="1", **cache, **env)
        expect(job.outcome.code == 0, job.outcome.tail())
        for entry in read(folder / "stats.json")["ranks"]:
            by = {name.removeprefix("bcast by ") for name in entry["schedules"]} & several
            expect(by == {algorithm}, f"rank {entry['rank']}: {by}, not {algorithm}")
            by_host = entry["between_nodes"]["host_collectives"]
            leads = entry["node_index"] == 0
            expect(leads or by_host == 0, f"rank {entry['rank']} leads no node: {by_host} among leaders")
            expect(by_host > 0 or not leads or algorithm != "host-leaders", f"rank {entry['rank']}: none among leaders")
        return job.outcome.output

    uses("host-leaders")
    modelled.write_text("bcast 2 several 0 scatter-ring-allgather 8192\n")
    uses("scatter-ring-allgather")
    measured.write_text("bcast 2 several 0 linear\n")
    uses("linear")
    uses("leader-ring", ZEROHOP_ALGORITHM="bcast:leader-ring")
    measured.write_text("bcast 2 several 0 rung\n")
    lines = [line for line in uses("scatter-ring-allgather").splitlines() if "not obeyed" in line]
    expect(len(lines) == 1 and f"{measured}: line 1: the fifth word" in lines[0], lines)


CASES = (
    everything_is_counted,
    times_stay_within_the_jobs,
    the_hosts_collectives_are_counted,
    abort_leaves_a_file,
    a_killed_rank_is_in_the_file,
    each_rank_has_a_file,
    each_rank_names_the_same_job,
    abort_writes_every_ranks_file,
    several_nodes_are_in_one_file,
    names_of_jobs_differ,
    an_unwritable_file_is_told_at_once,
    files_of_the_users_stay,
    a_link_stays_one,
    a_pipe_without_reader_is_told,
    the_debug_log_tells_each_decision_once,
    the_users_threshold_is_in_the_log,
    who_asks_for_the_kernel_module_hears_why_not,
    ablations_are_obeyed,
    tables_choose_the_algorithm,
)


def main() -> int:
    def run_in_folder(case, host) -> None:
        with tempfile.TemporaryDirectory(prefix="zh statistics ") as folder:
            case(host, Path(folder))

    return run_cases(__doc__, ZEROHOP, CASES, run_in_folder, lambda case: "")


if __name__ == "__main__":
    sys.exit(main())
