#!/usr/bin/env python3
"""Kills one rank by SIGKILL in the middle of a transfer and says whether the job ended and left nothing behind.

    tests/mpi/crash.py [--host H]... [--ranks N [--node-ranks M]] [--only GLOB] [--zerohop on|off] [--via run|preload]

The same tests are the program `crash` of run_matrix.py, which compares them with the host alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix.crash_program import crash_program  # noqa: E402
from matrix.launch import Zerohop  # noqa: E402
from matrix.programs import Setting  # noqa: E402

import hosts as mpi_hosts  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--node-ranks", type=int, default=0, help="pretend that nodes have so many ranks")
    parser.add_argument("--only", default="", metavar="GLOB", help="only plans whose name matches")
    parser.add_argument("--zerohop", choices=("on", "off"), default="on")
    parser.add_argument("--via", choices=("run", "preload"), default="run")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--verbose", action="store_true", help="print what the jobs wrote")
    arguments = parser.parse_args()
    zerohop = Zerohop(arguments.build, arguments.via) if arguments.zerohop == "on" else None
    if zerohop and (missing := zerohop.missing()):
        raise SystemExit(f"not built: {missing} (make build)")
    env = {"ZEROHOP_CONFIG": f"node_ranks={arguments.node_ranks}"} if arguments.node_ranks else {}
    placement = Placement(arguments.ranks, arguments.node_ranks)
    counts = {"ok": 0, "fail": 0, "skip": 0}
    for host in mpi_hosts.hosts():
        if arguments.host and host.name not in arguments.host:
            continue
        log: list[str] = []
        setting = Setting(host, placement, zerohop, env, only=arguments.only)
        for name, test in crash_program().run(setting, log).items():
            counts[test.status] += 1
            print(f"{test.status:4} {host.name} {name}{': ' + test.why if test.why else ''}", flush=True)
        if arguments.verbose:
            print("\n".join(log))
    print(f"{counts['ok']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return 1 if counts["fail"] or not sum(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
