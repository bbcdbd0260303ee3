#!/usr/bin/env python3
"""The NAS programs and the halo exchange of `bench apps` are right under each host, and say so when they are not.

    tests/mpi/apps.py [--ranks N]... [--host NAME]...

Class S with 2 and 4 ranks, without and with zerohop; one round of `bench apps` itself with the other small programs.
Then the same programs with a fault planted in their source: a wrong constant, and one message that is lost. Closing
line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench" / "apps"
sys.path.insert(0, str(ROOT / "dev"))

from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

BUILT = ROOT / "build" / "bin"
PROGRAMS = ("is", "ft", "cg", "mg", "halo3d")
TIMEOUT_S = 120
LOST = "static int count; static double lost[1 << 20];\n"
# Name, file, what stands there, what is planted, programs that must say that they are wrong.
FAULTS = (
    ("another seed", "apps.h", "kSeed = 314159265", "kSeed = 314159267", ("is", "ft", "cg", "mg")),
    ("lost keys", "is.c", "MPI_INT, own, recv", "MPI_INT, count++ == 3 ? (int*)lost : own, recv", ("is",)),
    ("a lost transpose", "ft.c", "MPI_DOUBLE, to,", "MPI_DOUBLE, count++ == 3 ? (void*)lost : to,", ("ft",)),
    ("a lost message", "apps.c", "MPI_Irecv(in,", "MPI_Irecv(count++ == 99 ? lost : in,", ("cg",)),
    ("a lost border", "mg.c", "Irecv(plane_in[side],", "Irecv(count++ == 99 ? lost : plane_in[side],", ("mg",)),
    ("a lost face", "halo3d.c", "MPI_Irecv(f,", "MPI_Irecv(count++ == 99 ? lost : f,", ("halo3d",)),
)


def run(host, binary: Path, program: str, ranks: int, zerohop: bool) -> str:
    """What is wrong with a run, or ""."""
    with tempfile.TemporaryDirectory(prefix="zh-apps-") as folder:
        out = Path(folder) / "out.json"
        words = [str(BUILT / "zerohop"), "run"] if zerohop else []
        command = host.command(ranks, *words, str(binary), program, "--class", "S", "--out", str(out))
        try:
            done = subprocess.run(command, env=host.environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"did not end within {TIMEOUT_S} s"
        if not out.exists():
            return f"exit code {done.returncode}, no result: {(done.stdout + done.stderr)[-300:]}"
        document = json.loads(out.read_text())
        if document["verified"] != (done.returncode == 0):
            return f"exit code {done.returncode} of a program that says {document}"
        return "" if document["verified"] else f"not verified: {document['value']}"


def command_runs(hosts: list, ranks: list[int]) -> str:
    """What is wrong with one round of the command: a result, or a launch."""
    names, numbers = ",".join(h.name for h in hosts if h.abi != "abi") or hosts[0].name, ",".join(map(str, ranks))
    others = "halo2d,matmul,heat,jacobi,embed"
    words = ["bench", "apps", others, "--classes", "S", "--ranks", numbers, "--hosts", names, "--rounds", "1"]
    done = subprocess.run([str(BUILT / "zerohop"), *words], capture_output=True, text=True, timeout=600)
    missing = [n for n in others.split(",") if n != "jacobi" and n not in done.stdout]
    said = done.stderr.strip()[-300:]
    return f"exit code {done.returncode}, missing {missing}: {said}" if done.returncode or missing else ""


def planted(host, fault: tuple, folder: Path) -> Path:
    _, name, there, instead, _ = fault
    for source in SOURCES.glob("*.[ch]"):
        text = source.read_text()
        if source.name == name:
            if there not in text:
                raise SystemExit(f"{name} has no {there!r} any more")
            text = (LOST if "lost" in instead else "") + text.replace(there, instead)
        (folder / source.name).write_text(text)
    sources = [str(p) for p in folder.glob("*.c") if p.name != "embed.c"]
    command = [host.mpicc, "-O1", "-std=c11", *sources, "-o", str(folder / "faulty"), "-lm"]
    subprocess.run(command, env=host.environment(), check=True)
    return folder / "faulty"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--ranks", type=int, action="append", help="ranks of a job (default 2 and 4)")
    arguments = parser.parse_args()
    ranks_of_jobs = arguments.ranks or [2, 4]
    chosen = [h for h in mpi_hosts.hosts() if not arguments.host or h.name in arguments.host]
    tally = Tally()
    for host in chosen:
        binary = BUILT / f"bench_apps_{host.abi}"
        for program in PROGRAMS:
            for ranks in ranks_of_jobs:
                for zerohop in (False, True):
                    problem = run(host, binary, program, ranks, zerohop)
                    side = "with zerohop" if zerohop else "alone"
                    tally.judge(f"{program}, {ranks} ranks, {host.name} {side}", problem)
    if chosen:
        tally.judge("bench apps", command_runs(chosen, ranks_of_jobs))
    else:
        tally.skip("all", "no host")
    for fault in FAULTS if chosen else ():
        with tempfile.TemporaryDirectory(prefix="zh-apps-fault-") as folder:
            binary = planted(chosen[0], fault, Path(folder))
            for program in fault[-1]:
                problem = run(chosen[0], binary, program, 2, False)
                wrong = "" if "not verified" in problem else problem or "says that it is right"
                tally.judge(f"{program} with {fault[0]}", wrong)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
