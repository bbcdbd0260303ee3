"""MPICH and the conformance programs in a virtual machine whose kernel lets no process copy from another's memory.

The programs are not changed: the library is preloaded. Used by dev/kernel.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

from machines.commands import Missing  # noqa: E402
from machines.virtual import Files, ended_well  # noqa: E402
from matrix import programs  # noqa: E402
from matrix.results import read_lines  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

LIBRARY, COMMAND = ROOT / "build/lib/libzerohop.so", ROOT / "build/bin/zerohop"
TOOLS = COMMAND.with_name("zerohop-tools")
TESTS = ROOT / "tests" / "kernel"


@dataclasses.dataclass(frozen=True)
class Job:
    """A program in which kernel copies between processes are refused, and how."""

    name: str
    ranks: int
    scope: int  # Yama's, which never falls
    apart: str  # of tests/kernel/apart.c, each rank
    program: str  # of Files
    cases: str


JOBS = (
    Job("yama", 2, 2, "", "semantics", "sendrecv.*"),
    Job("seccomp", 3, 2, "seccomp", "collectives", "coll_move.*"),
    Job("containers", 3, 3, "namespaces seccomp", "semantics", "sendrecv.*"),
    Job("mapped", 3, 3, "namespaces seccomp", "semantics", "alloc_mem.collective"),
)

# What copies cost there says nothing, so nothing is measured. AMD processors do without single copy unless asked.
INIT = """
ip link set lo up
hostname machine
echo 'user:x:1000:1000::/tmp:/bin/sh' >/etc/passwd
echo '127.0.0.1 localhost machine' >/etc/hosts
insmod /zerohop.ko || rc=insmod
job() {
  name=$1 ranks=$2 scope=$3 apart=$4
  shift 4
  echo $scope >/proc/sys/kernel/yama/ptrace_scope
  echo "@@JOB $name"
  apart user -- {mpiexec} -launcher fork -n $ranks -genv ZEROHOP_PROFILE builtin \\
    -genv ZEROHOP_CONFIG single_copy=64K \\
    -genv LD_PRELOAD {library} -genv ZEROHOP_STATS /tmp/$name.json /bin/apart $apart -- "$@" </dev/null 2>&1
  echo "@@CODE $?"
  echo "@@STATS $(tr -d '\\n' </tmp/$name.json)"
}
{jobs}
echo "@@DOCTOR $(apart user -- {command} doctor 2>&1 | tr -d '\\n')"
rmmod zerohop || rc=rmmod
rc=${rc:-0}
"""


def judged(job: Job, said: str) -> list[tuple[str, str]]:
    """Its tests: name, and what is wrong or nothing."""
    part = re.search(rf"@@JOB {job.name}\n(.*?)@@CODE (\d+)\n@@STATS (.*?)\n", said, re.DOTALL)
    if not part:
        return [(f"mpi.{job.name}.start", "the job did not run to its end")]
    reading = read_lines(part[1])
    tests = [(f"mpi.{job.name}.{name}", t.why if t.status == "fail" else "") for name, t in reading.results.items()]
    tests.append((f"mpi.{job.name}.end", "" if part[2] == "0" and reading.complete else f"exit code {part[2]}"))
    return [*tests, (f"mpi.{job.name}.by_the_module", way_of(part[3]))]


def judged_doctor(said: str) -> tuple[str, str]:
    told = re.search(r"@@DOCTOR .*kernel_module +(.*?)(?:ok|warn|bad) +yama", said)
    words = " ".join(told[1].split()) if told else "nothing"
    return "mpi.doctor", "" if words.startswith("copies between ranks") else f"it says of the module: {words}"


def way_of(stats: str) -> str:
    """What is wrong with the ways that the bytes took: by the module, and none by the kernel's own call."""
    try:
        ranks = json.loads(stats)["ranks"]
    except (ValueError, KeyError):
        return "no statistics"
    bytes_by = {
        way: sum(part["bytes"] for rank in ranks for part in rank["sent"]["by_path"].get(way, []))
        + sum(rank["collectives"].get(f"{way}_bytes", 0) for rank in ranks)
        for way in ("cells", "cma", "ko", "mapped")
    }
    return "" if bytes_by["ko"] > 0 and bytes_by["cma"] == 0 else f"bytes by way: {bytes_by}"


def run_in(files: Files, kernel: Path, module: Path) -> tuple[int, int, str]:
    """Passed and failed tests, and what the machine said."""
    host = next((h for h in mpi_hosts.hosts() if h.name == "mpich"), None)
    if not host or not LIBRARY.exists():
        raise Missing("no MPICH in build/env, or no libzerohop (dev/setup build, make build)")
    binaries = {
        "semantics": Path(programs.semantics_binary(host)),
        "collectives": Path(programs.collectives_binary(host)),
    }
    mpiexec = Path(host.mpiexec[0])
    libraries = LIBRARY.parent.glob("libzerohop*.so")
    for program in (*binaries.values(), COMMAND, TOOLS, mpiexec, mpiexec.parent / "hydra_pmi_proxy", *libraries):
        files.add_program(program, **host.environment())
    for library in Path(host.libdir).glob("mpich/*.so*"):
        files.add(library)
    files.add(module, "zerohop.ko")
    files.compile("apart", str(TESTS / "apart.c"))
    files.compile("leave", str(TESTS / "leave.c"))
    options = "--timeout 300 --trace --effort low --filter"
    jobs = "\n".join(
        f"job {j.name} {j.ranks} {j.scope} '{j.apart}' {binaries[j.program]} {options} '{j.cases}'" for j in JOBS
    )
    init = INIT.replace("{mpiexec}", str(mpiexec)).replace("{library}", str(LIBRARY)).replace("{jobs}", jobs)
    init = init.replace("{command}", str(COMMAND))
    said = files.boot(kernel, f"export LD_LIBRARY_PATH={host.libdir}\n{init}")
    tests = [*(test for job in JOBS for test in judged(job, said)), judged_doctor(said)]
    if not ended_well(said):
        tests.append(("mpi.machine", "it did not end as it should"))
    lines = "\n".join(f"{name:<56} {'FAILED: ' + wrong if wrong else 'passed'}" for name, wrong in tests)
    failed = sum(bool(wrong) for _, wrong in tests)
    return len(tests) - failed, failed, f"{said}\n{lines}"
