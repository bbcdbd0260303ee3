#!/usr/bin/env python3
"""The benchmarks over several machines, made of namespaces: they run, verify their data and count what is sent.

    tests/mpi/bench_machines.py [--host NAME]...

Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "dev"))

from machines import launcher, namespaces  # noqa: E402
from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

ZEROHOP = ROOT / "build" / "bin" / "zerohop"
LAUNCH_S, TIMEOUT_S = 60, 240  # the command ends a launch that hangs long before it is ended itself
BYTES = 4096
ONCE = ("--rounds", "1", "--blocks", "1", "--block-us", "200", "--timeout", str(LAUNCH_S))
# What goes from or to the root crosses between the machines, and headers with it. The ranks of the second machine may
# send without hearing of the first: what they send must not be missed.
CASES = {
    "coll": ("--ranks", "4", "--only", "bcast,gather", "--sizes", str(BYTES)),
    "coll, in turn": ("--ranks", "4", "--cyclic", "--only", "bcast,gather", "--sizes", str(BYTES)),
    "coll, started": (
        *("--ranks", "4", "--form", "nonblocking,persistent"),
        *("--only", "bcast,neighbor_alltoallw", "--sizes", str(BYTES)),
    ),
    "coll, layout": ("--layout", "2x2", "--only", "matmul", "--sizes", "16"),
    "algorithms": ("--ranks", "4", "--only", "bcast", "--sizes", str(BYTES)),
    "no shared page": ("--only", "flat,bcast,allreduce", "--sizes", str(BYTES)),
    "p2p": ("--only", "latency", "--sizes", str(BYTES), "--raw", "off"),
}


def without_a_page(host: str, file: Path) -> str:
    """The program alone, which agrees over the host MPI as on machines with a kernel each; nothing if all is well."""
    program = ROOT / "build" / "bin" / f"bench_coll_{mpi_hosts.host(host).abi}"
    start = [ROOT / "dev" / "on_machines.py", "--host", host, "--machines", "2", "-n", "4", ZEROHOP, "run", program]
    options = ["--no-page", "--arms", "host,zerohop,host", "--blocks", "1", *CASES["no shared page"], "--out", file]
    job = subprocess.run(
        ["timeout", str(LAUNCH_S), *start, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if job.returncode != 0:
        return f"exit code {job.returncode}: {job.stderr[-1500:]}"
    document = json.loads(file.read_text())
    told = document["errors"], document["placement"], document["machine_of"], [c["bench"] for c in document["cases"]]
    return "" if told == (0, "several", [0, 0, 1, 1], ["bcast", "allreduce"]) else f"it tells {told}"


def what_is_wrong(host: str, case: str, file: Path) -> str:
    """Runs one benchmark and reads what it wrote; nothing if all is well."""
    if case == "no shared page":
        return without_a_page(host, file)
    bench = case.split(",")[0]
    machines = () if "--layout" in CASES[case] else ("--machines", "2")
    command = [ZEROHOP, "bench", bench, *CASES[case], *machines, *ONCE, "--hosts", host, "--under", host]
    job = subprocess.run([*command, "--json", file], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if job.returncode != 0:
        return f"exit code {job.returncode}: {job.stderr[-1500:]}"
    rows = json.loads(file.read_text())["rows"]
    if not rows:
        return "no rows"
    if bench == "algorithms":
        return "" if "4 ranks on 2 machines" in job.stdout else f"the machines are not named: {job.stdout[:500]}"
    spread = "2 machines in turn" if "in turn" in case else "2 machines"
    if named := {r["machines"] for r in rows} - {spread}:
        return f"rows on {named}, not on {spread}"
    if case == "coll, started":
        told = {(r["bench"], r["variant"]) for r in rows if r["metric"] == "left_us"}
        return "" if len(told) == 4 else f"what is left is told of {sorted(told)} alone"
    if bench != "coll" or "--layout" in CASES[case]:
        return ""
    counted = 0
    for row in rows:
        if row["metric"] != "sent_bytes":
            continue
        sent = {"zerohop": row["zerohop"]["median"], **{name: peer["median"] for name, peer in row["peers"].items()}}
        least = 2 * BYTES if row["bench"] == "gather" else BYTES
        if len(sent) != 2 or min(sent.values()) < least:
            return f"{row['bench']}: less than {least} B was sent: {sent}"
        counted += 1
    return "" if counted == 2 else "no row tells what was sent"


def main() -> int:
    arguments = parser_of(__doc__).parse_args()
    if not ZEROHOP.exists():
        raise SystemExit(f"not built: {ZEROHOP} (make build)")
    tally = Tally()
    for host in ("mpich", "openmpi", "impi"):
        if arguments.host and host not in arguments.host:
            continue
        try:
            why = launcher.why_not(mpi_hosts.host(host)) or namespaces.why_not()
        except KeyError:
            why = "it is not installed (dev/setup)"
        if why:
            tally.skip(host, why, len(CASES))
            continue
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    wrong = what_is_wrong(host, case, Path(folder) / "out.json")
                except subprocess.TimeoutExpired:
                    wrong = f"it did not end in {TIMEOUT_S} s"
            tally.judge(f"{host} {case}", wrong)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
