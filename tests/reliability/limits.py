"""Jobs from which something real is taken away: memory, descriptors, system calls, processors, what /sys says."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tempfile

from jobs import TRAFFIC, Case, enter_binary, program, start, wrong_with, zerohop_lines

RANKS = 3
TIMEOUT_S = 180
ROUNDS_ALONE = 7  # one of each kind: the host alone waits by spinning, which takes long where ranks share cores

# How a user would tell each host to do without its own shared memory.
WITHOUT_SHARED_MEMORY = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1"},
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    "impi": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"},
}


@dataclasses.dataclass(frozen=True)
class Limit:
    """`outer` stands before the launcher, `inner` before each rank; `says` is a pattern of the one line on stderr,
    and without one zerohop must say nothing. `may_say`: so it does under some hosts."""

    name: str
    outer: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    says: str = ""
    may_say: str = ""
    quick: bool = False


def mounted(commands: str) -> tuple[str, ...]:
    """A mount namespace of the job's own, in which these commands have been run."""
    return ("unshare", "-m", "sh", "-c", f'{commands} && exec "$@"', "sh")


def deny(*calls: str) -> tuple[str, ...]:
    return (enter_binary(), *calls, "--")


CMA = ("process_vm_readv", "process_vm_writev")
FULL = "mount -t tmpfs -o size=1m tmpfs /dev/shm && (head -c 2m /dev/zero > /dev/shm/full 2>/dev/null; true)"
READ_ONLY = "mount -t tmpfs -o ro tmpfs /mnt"
LEFT = "everything stays with the MPI library"
SLOWER = "may not copy from each other.s memory"


def limits() -> list[Limit]:
    return [
        Limit("nothing is taken away"),
        Limit("64 MB of /dev/shm", mounted("mount -t tmpfs -o size=64m tmpfs /dev/shm"), quick=True),
        Limit("/dev/shm is full", mounted(FULL), quick=True),
        Limit("/dev/shm is full, memfd_create denied", mounted(FULL), deny("memfd_create"), may_say=LEFT),
        Limit("memfd_create denied", (), deny("memfd_create"), quick=True),
        Limit("memfd_create denied, 64 MB of /dev/shm", mounted("mount -t tmpfs -o size=64m tmpfs /dev/shm"),
              deny("memfd_create")),
        Limit("ulimit -f 0", (), ("prlimit", "--fsize=0"), says=LEFT),
        Limit("ulimit -v 1 GiB", (), ("prlimit", f"--as={1 << 30}"), may_say=LEFT),
        Limit("ulimit -v 600 MiB", (), ("prlimit", f"--as={600 << 20}")),
        Limit("ulimit -n 24", (), ("prlimit", "--nofile=24")),
        Limit("no thread can be made (ulimit -u)", (), ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups",
              "prlimit", f"--nproc={RANKS}"), quick=True),
        Limit("no thread can be made (ulimit -u), no CMA", (), ("setpriv", "--reuid=54321", "--regid=54321",
              "--clear-groups", "prlimit", f"--nproc={RANKS}", *deny(*CMA)), says=SLOWER),
        Limit("TMPDIR and the cache's folder read-only", mounted(READ_ONLY), (),
              (("TMPDIR", "/mnt"), ("XDG_CACHE_HOME", "/mnt"))),
        Limit("one core", ("taskset", "-c", "0"), quick=True),
        Limit("/sys is empty: hwloc finds nothing", (), mounted("mount -t tmpfs none /sys"), quick=True),
        Limit("CMA denied", (), deny(*CMA), says=SLOWER, quick=True),
        Limit("CMA and pidfd_open denied", (), deny(*CMA, "pidfd_open"), says=SLOWER),
        Limit("CMA and memfd_create denied, 64 MB of /dev/shm", mounted("mount -t tmpfs -o size=64m tmpfs /dev/shm"),
              deny(*CMA, "memfd_create"), says=SLOWER),
        Limit("a user namespace for each rank", (), ("unshare", "-U", "--map-root-user"), says=SLOWER),
        Limit("a PID namespace for each rank", (), ("unshare", "-p", "-f", "--kill-child")),
        Limit("fallocate unknown", (), deny("fallocate")),
    ]  # fmt: skip


def possible(limit: Limit) -> str:
    """Why this machine cannot take that away, or nothing."""
    for words in (limit.outer, limit.inner):
        if not words:
            continue
        tried = subprocess.run([*words, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            return f"cannot be taken away here: {tried.stderr.strip()[:120]}"
    return ""


def run(limit: Limit, host, rounds: int) -> Case:
    case = Case("limits", limit.name, host.name, "skipped", possible(limit))
    if case.note:
        return case
    traffic = [program(host, TRAFFIC), "rounds"]
    alone = [*traffic, str(ROUNDS_ALONE)]
    with tempfile.TemporaryDirectory(prefix="zh-limit-") as cache:
        env = {"XDG_CACHE_HOME": cache, **dict(limit.env)}
        settings = {"outer": list(limit.outer), "inner": list(limit.inner)}
        wrong = wrong_with(start(host, RANKS, alone, TIMEOUT_S, zerohop=False, env=env, **settings), RANKS)
        how = "host told to do without shared memory" if wrong else ""
        if wrong:
            env.update(WITHOUT_SHARED_MEMORY[host.name])
            wrong = wrong_with(start(host, RANKS, alone, TIMEOUT_S, zerohop=False, env=env, **settings), RANKS)
        if wrong:
            case.note = f"the host alone does not run: {wrong[:120]}"
            return case
        outcome = start(host, RANKS, [*traffic, str(rounds)], TIMEOUT_S, env=env, **settings)
    said = zerohop_lines(outcome)
    wrong = wrong_with(outcome, RANKS)
    if not wrong and limit.says and (len(said) != 1 or not re.search(limit.says, said[0])):
        wrong = f"should say one line with '{limit.says}', says {said}"
    allowed = limit.may_say and len(said) == 1 and re.search(limit.may_say, said[0])
    if not wrong and not limit.says and said and not allowed:
        wrong = f"should say nothing, says {said}"
    case.status = "failed" if wrong else "passed"
    case.note = wrong or "; ".join(filter(None, [f'says "{said[0]}"' if said else "", how]))
    return case
