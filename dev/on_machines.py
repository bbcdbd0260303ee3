#!/usr/bin/env python3
"""Starts an MPI job on several machines made of namespaces of this one, with TCP between them, by the host's launcher.

    dev/on_machines.py --host NAME --machines N [--cyclic] -n RANKS PROGRAM [ARGUMENT...]

Neighbours share a machine, or, with --cyclic, ranks are dealt out in turn. The machines have a network, processes and
shared memory of their own, and this machine's files and processors. They end with the job, or with this process. Exit
code: the launcher's; 2 where there can be no such machines (root, or user namespaces that anybody may make), and why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from machines import launcher, namespaces
from machines.placement import Placement

import hosts as mpi_hosts

CANNOT = 2


def fail(why: str) -> int:
    print(f"on_machines.py: {why}", file=sys.stderr)
    return CANNOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", required=True, help="a name of dev/hosts.py")
    parser.add_argument("--machines", type=int, required=True)
    parser.add_argument("--cyclic", action="store_true")
    parser.add_argument("-n", dest="ranks", type=int, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    a = parser.parse_args()
    try:
        host = mpi_hosts.host(a.host)
    except KeyError as unknown:
        return fail(unknown.args[0])
    if a.machines < 1 or a.ranks < 1 or not a.program:
        return fail("at least one machine, one rank, and a program")
    placement = Placement(a.ranks, machines=a.machines, cyclic=a.cyclic)
    if (used := placement.machines_used()) < a.machines:
        return fail(f"{a.ranks} ranks would fill {used} of {a.machines} machines")
    if why := launcher.why_not(host):
        return fail(why)
    try:
        with launcher.job(host, placement, *a.program) as (command, variables):
            # Benchmarks that pin their ranks must know that the machines have the same processors.
            env = host.environment(**variables, ZH_ONE_KERNEL="1")
            return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, check=False).returncode
    except namespaces.NotPermitted as refusal:
        return fail(f"no machines can be made of namespaces here: {refusal}")


if __name__ == "__main__":
    sys.exit(main())
