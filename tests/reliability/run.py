#!/usr/bin/env python3
"""Does zerohop survive accidents and limits? Kills, stops, masses, missing resources: docs/results/reliability.md.

    tests/reliability/run.py [--quick] [--only WORD]... [--budget SECONDS] [--json FILE] [--write]
    tests/reliability/run.py --list                                    # what there is
    tests/reliability/run.py --only kills --budget 3600 --write        # an hour more of kills, added to the page's
    tests/reliability/run.py --only "kills mpich" --seed 7             # a series again that went wrong

Parts: kills (a rank dies by SIGKILL at a random moment, under the hosts and in processes without MPI), stops (SIGSTOP
and SIGCONT), many (a million of this, ten thousand of that), limits (memory, descriptors, system calls, cores taken
away). WORD is part of "part name host". Half of the budget goes to the kills of MPI jobs and a quarter to those without
MPI, unless --only leaves more; the other parts run once, as far as the budget goes.

--write adds the counts of kills to tests/reliability/results.json, puts the other results in place of the older ones,
and writes the page from that file. --json does the same with a file of yours and writes no page. What failed is
counted like what passed. Limits need root (namespaces); what this machine cannot take away is skipped and said.
Closing line: `N passed, N failed, N skipped`; a series of kills is one test. Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import kills  # noqa: E402
import limits  # noqa: E402
import many  # noqa: E402
import page  # noqa: E402
from jobs import ROOT, ZEROHOP, Case, chosen_hosts  # noqa: E402

RESULTS = HERE / "results.json"
PAGE = ROOT / "docs" / "results" / "reliability.md"
FORK_BATCH = 25


class Tally:
    """What this run has found."""

    def __init__(self) -> None:
        self.rows: list[kills.Row] = []
        self.cases: list[Case] = []
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def judge(self, status: str, name: str, note: str) -> None:
        self.counts[status] += 1
        print(f"{'FAILED' if status == 'failed' else status:8}{name}{': ' + note if note else ''}", flush=True)
        if status == "failed":
            print(f"failed: {name}", flush=True)

    def add(self, case: Case) -> None:
        self.cases.append(case)
        self.judge(case.status, f"{case.part} {case.name}, {case.host}", case.note)


def series_of_kills(tally: Tally, name: str, one: Callable, most: int, until: float) -> None:
    """Kills until there are enough or the time is up, at least one; wrong ones are shown when they happen."""
    total, wrong_ones, shown = kills.Row(name, ""), 0, time.monotonic()
    while total.kills + total.not_begun < most and (total.kills == 0 or time.monotonic() < until):
        row, wrong = one(most - total.kills)
        kills.add_up(tally.rows, row)
        total.add(row)
        if wrong:
            wrong_ones += 1
            print(f"        {wrong}", flush=True)
            if wrong_ones >= 20:
                break
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"        {name}: {total.kills} kills, {max(0.0, until - shown):.0f} s left", flush=True)
    note = f"{total.kills} kills, {total.survivors} others ended within {total.longest_s:.1f} s"
    if total.told:
        note += f" ({total.told} were told)"
    tally.judge("failed" if wrong_ones or total.bad() else "passed", name, note)


def merge(file: Path, tally: Tally) -> tuple[list[kills.Row], list[Case]]:
    """Adds this run to what the file holds."""
    rows, cases = page.of_json(json.loads(file.read_text()) if file.exists() else {})
    for row in tally.rows:
        kills.add_up(rows, row)
    fresh = {(case.part, case.name, case.host): case for case in tally.cases}
    cases = [fresh.pop((case.part, case.name, case.host), case) for case in cases] + list(fresh.values())
    file.write_text(page.as_json(rows, cases))
    return rows, cases


def plan(arguments, hosts: list) -> list[tuple[str, Callable[[], Case]]]:
    """Everything but the kills: its name and how it is run. The quick form leaves most of it to one host."""
    quick, found = arguments.quick, []

    def add(part: str, name: str, host, action: Callable[[], Case]) -> None:
        found.append((f"{part} {name} {host.name}", action))

    for host in hosts[:1] if quick else hosts:
        add("stops", "stopped rank", host, lambda host=host: kills.stop_rank(host, 3 if quick else 50))
    for limit in limits.limits():
        for host in hosts[:1] if quick else hosts:
            if limit.quick or not quick:
                add("limits", limit.name, host,
                    lambda limit=limit, host=host: limits.run(limit, host, 40 if quick else 200))  # fmt: skip
    for form in many.FORMS:
        for host in hosts[:1] if quick else hosts:
            if form.quick_count or not quick:
                add("many", form.name, host, lambda form=form, host=host: many.run(form, host, quick))
    return found


def run(arguments, hosts: list) -> Tally:
    tally, begin = Tally(), time.monotonic()

    def wanted(name: str) -> bool:
        return not arguments.only or any(all(w in name for w in word.split()) for word in arguments.only)

    chosen = [(name, action) for name, action in plan(arguments, hosts) if wanted(name)]
    mpi = [host for host in hosts if wanted(f"kills mpi {host.name}")]
    forked = wanted("kills without MPI")
    share = 0.25 if chosen else 0.5 if mpi and forked else 1.0
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    if mpi or forked:
        print(f"seed {seed}", flush=True)
    if mpi:
        draw, most = random.Random(seed), 6 if arguments.quick else 1 << 30
        until = time.monotonic() + arguments.budget * min(1.0, 2 * share if chosen else share)
        series_of_kills(tally, "kills of MPI jobs", lambda _: kills.mpi_kill(mpi, draw), most, until)
    if forked:
        draw, most = random.Random(seed + 1), 30 if arguments.quick else 1 << 30
        until = time.monotonic() + arguments.budget * share
        fork = lambda left: kills.fork_kills(min(left, FORK_BATCH), draw.randrange(1 << 32))  # noqa: E731
        series_of_kills(tally, "kills without MPI", fork, most, until)
    for index, (name, action) in enumerate(chosen):
        if index and time.monotonic() - begin > arguments.budget:
            tally.judge("skipped", name, f"does not fit into the {arguments.budget:.0f} s")
        else:
            tally.add(action())
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a little of each part, within a minute")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="only what these words name")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="only this host (repeatable)")
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="default 1800; with --quick 40")
    parser.add_argument("--seed", type=int, help="of the kills (default: a new one, which is printed)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the results to this file")
    parser.add_argument("--write", action="store_true", help="add the results to those of the page and write it")
    parser.add_argument("--list", action="store_true", help="print what there is and stop")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the job that runs is ended on the way out
    arguments.budget = arguments.budget or (40 if arguments.quick else 1800)
    hosts = chosen_hosts(arguments.host)
    if arguments.list:
        names = [f"kills mpi {host.name}" for host in hosts] + ["kills without MPI"]
        print("\n".join(names + [name for name, _ in plan(arguments, hosts)]))
        return 0
    if not hosts:
        raise SystemExit("no such MPI host here (python3 dev/hosts.py; dev/setup)")
    if missing := ZEROHOP.missing():
        raise SystemExit(f"not built: {missing} (make build)")
    tally = run(arguments, hosts)
    if arguments.json:
        merge(arguments.json, tally)
    if arguments.write:
        PAGE.write_text(page.page(*merge(RESULTS, tally)))
    print(", ".join(f"{count} {status}" for status, count in tally.counts.items()))
    if not sum(tally.counts.values()):
        print("nothing has that name: --list")
        return 2
    return 1 if tally.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
