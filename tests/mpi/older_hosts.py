#!/usr/bin/env python3
"""Hosts older than MPI 4 under zerohop: conformance programs, compiled for the present host, under the older library.

    tests/mpi/older_hosts.py [--host NAME]... [--ranks N]...

zerohop gives these programs the functions of MPI 4 that it takes over itself. What else they call and the host lacks,
and what the host gets wrong by itself (tried with ZEROHOP_ENABLE=0), is left out by name below. A host that dev/setup
has not installed is skipped, and that is said. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.launch import Zerohop, launch  # noqa: E402
from matrix.programs import collectives_binary, semantics_binary  # noqa: E402
from matrix.results import read_lines  # noqa: E402
from matrix.script import Tally, parser_of  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

TIMEOUT_S = 400

# Persistent collectives, sessions, partitioned messages and MPI_Get_count_c are not in the library.
YOUNG = {
    "coll_reduce.*_persistent": "compares with the host's persistent reductions",
    "coll_in_place.*_persistent": "the same",
    "coll_userop.*_persistent": "an operation on elements with gaps is the host's",
    "sessions.*": "calls MPI_Session_init",
}
YOUNG_MPICH = {
    **YOUNG,
    "completion.waitall_over_other_kinds": "calls MPI_Psend_init",
    "request_matrix.*": "calls MPI_Psend_init",
    "large_count.derived_type_made_by_large_counts": "calls MPI_Type_contiguous_c",
    "large_count.every_send_form": "calls MPI_Get_count_c",
    "truncation.amid_element": "the host's MPI_Get_elements_x, which zerohop asks, takes what is left over for nothing",
}
LEFT_OUT = {
    "openmpi-4.1": {
        **YOUNG,
        "errors.null_communicator*": "the host raises them on MPI_COMM_WORLD, as MPI 3 says",
        "types_match.pair_elements_*": "the host counts a pair as one element",
    },
    "mpich-3.4": {
        **YOUNG_MPICH,
        "coll_reduce.*": "the host ends the job at operations on newer types",
        "coll_in_place.*": "the same",
        "coll_pairs.*": "the same",
        "coll_userop.*": "the host loses the end of long vectors with gaps",
        "coll_neighbors.mistakes": "the host waits for ever",
        "errors.rank_of_receives": "the host's MPI_Probe of a wrong rank waits for ever",
        "proc_null.persistent": "the host gives another source",
    },
    # Version 4.0 has MPI 4; for tests/mpi/versions.py.
    "debian-mpich": {
        "coll_reduce.*": "the host ends the job at operations on newer types, and takes unsigned numbers for signed",
        "coll_in_place.*": "the same",
        "coll_pairs.*": "the same",
        "coll_errors.reducing_negative_counts": "the host crashes",
    },
    "impi-2021.10": {
        **YOUNG_MPICH,
        "coll_reduce.*": "the host refuses MPI_REAL2, which zerohop knows",
        "coll_in_place.*": "the same",
        "coll_pairs.*": "the same",
        "types_basic.darray_cyclic": "the host gives a wrong type map",
    },
}


def run(host, program: str, ranks: int, zerohop: Zerohop) -> dict[str, int]:
    """One program on `ranks` ranks; says what failed."""
    skip = ",".join(LEFT_OUT[host.name])
    outcome = launch(host, Placement(ranks), [program, "--timeout", "60", "--effort", "low", "--skip", skip], TIMEOUT_S,
                     zerohop)  # fmt: skip
    read = read_lines(outcome.output)
    counts = {status: sum(test.status == status for test in read.results.values()) for status in ("ok", "fail", "skip")}
    name = f"{host.name} {ranks} ranks {Path(program).name.split('-')[0]}"
    for test, result in read.results.items():
        if result.status == "fail":
            print(f"failed: {name} {test}: {result.why}", flush=True)
    if not read.complete or "everything stays with" in outcome.output or counts["ok"] == 0:
        counts["fail"] += 1
        print(f"failed: {name} did not run to its end under zerohop:\n{outcome.tail(8)}", flush=True)
    print(f"{name}: {counts['ok']} ok, {counts['fail']} failed, {counts['skip']} skipped", flush=True)
    return counts


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--ranks", action="append", type=int, default=[], metavar="N", help="default: 2 and 3")
    arguments = parser.parse_args()
    zerohop = Zerohop(ROOT / "build")
    if missing := zerohop.missing():
        raise SystemExit(f"not built: {missing} (make build)")
    tally = Tally()
    for host in mpi_hosts.older_hosts():
        if arguments.host and host.name not in arguments.host:
            continue
        if not Path(host.mpiexec[0]).exists():
            tally.skip(host.name, "not installed (dev/setup full)")
            continue
        present = mpi_hosts.host("openmpi" if host.abi == "ompi" else "mpich")
        for build in (semantics_binary, collectives_binary):
            for ranks in arguments.ranks or (2, 3):
                counts = run(host, build(present), ranks, zerohop)
                tally.passed += counts["ok"]
                tally.failed += counts["fail"]
                tally.skipped += counts["skip"]
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
