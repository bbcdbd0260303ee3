#!/usr/bin/env python3
"""Do the checks find faults? Plants each fault of tests/mutants, alone, and runs the checks that ought to find it.

    dev/mutants.py [--only WORD]... [--list] [--json FILE] [--tree FOLDER]

A mutant is a patch of one or a few lines, tests/mutants/<layer>-<word>.patch. Above its diff stand
    # what is wrong, in one sentence
    # build: <targets of the release build, or none>
    # find: <a check; several lines are tried in their order until one fails>
A check is one of
    ctest <regex>          tests of the release build, as ctest -R has them
    matrix <arguments>     tests/mpi/run_matrix.py
    script <path> ...      another program of tests, which ends with `N passed, N failed, N skipped`
    check <word>           dev/check.py check --only <word>

Everything happens in a clone of this checkout's last commit (build/mutants), which stays for the next run; the patches
are those of the working folder. First each check must pass there without a fault, or a broken check would find all.
Then one line for each mutant says whether it was found, after how many seconds, and by which test. A check that does
not end in time has found its fault, too. The last line is
    N passed, N failed, N skipped
where passed means found, and the exit code is not zero when a mutant was not found, does not apply or does not build.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from check import JOBS, SUMMARY, run

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "mutants"
BUILD_S = 3600
CHECK_S = {"ctest": 180, "matrix": 300, "script": 300, "check": 300}
# Where the name of what failed stands: ctest, unittest, programs of tests/mpi, other stages and checkers.
FAILED = [re.compile(p, re.MULTILINE) for p in (
    r"^ *\d+/\d+ Test +#\d+: (\S+) .*\*\*\*", r"^ *FAIL:? +(.+?): ", r"^failed: (.+)$", r"^(\S+:\d+: .+)$",
)]  # fmt: skip


@dataclasses.dataclass
class Mutant:
    name: str
    patch: Path
    what: str
    targets: list[str]
    finds: list[str]


@dataclasses.dataclass
class Outcome:
    mutant: Mutant
    verdict: str  # found, NOT FOUND, does not apply, does not build, check fails without it
    by: str = ""
    seconds: float = 0.0


def read_mutant(path: Path) -> Mutant:
    """The lines above the diff; SystemExit where one is missing or unknown."""
    head = []
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            break
        head.append(line[2:])
    targets = [line.removeprefix("build: ").split() for line in head if line.startswith("build: ")]
    finds = [line.removeprefix("find: ") for line in head if line.startswith("find: ")]
    known = all(find.split()[0] in CHECK_S for find in finds)
    if len(targets) != 1 or not finds or not known or len(head) != 2 + len(finds):
        raise SystemExit(f"{path.name}: begins with what is wrong, one line `build:`, and lines `find:` (--help)")
    return Mutant(path.stem, path, head[0], [] if targets[0] == ["none"] else targets[0], finds)


class Tree:
    """The clone in which faults are planted."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder.with_name(folder.name + ".log")
        self.planted: list[str] = []  # targets that were built with the last fault in, and not since

    def run(self, command: list[str], limit_s: float) -> tuple[int, str]:
        return run(command, self.log, limit_s, cwd=self.folder)

    def prepare(self) -> None:
        """The last commit of this checkout, with its MPI hosts."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        if not (self.folder / ".git").exists():
            subprocess.run(["git", "clone", "-q", "--no-checkout", str(ROOT), str(self.folder)], check=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        for command in (["fetch", "-q", str(ROOT), "HEAD"], ["checkout", "-q", "-f", "--detach", head.stdout.strip()]):
            subprocess.run(["git", *command], cwd=self.folder, check=True)
        hosts = self.folder / "build" / "env"
        hosts.parent.mkdir(exist_ok=True)
        if not hosts.exists():
            hosts.symlink_to(ROOT / "build" / "env")

    def build(self, targets: list[str]) -> bool:
        return not targets or self.run(["dev/build", "release", *targets], BUILD_S)[0] == 0

    def plant(self, mutant: Mutant) -> str:
        """Applies and builds; what went wrong, or nothing."""
        # What only the last mutant's targets hold is built without it before the next fault is in.
        if not self.build([target for target in self.planted if target not in mutant.targets]):
            raise SystemExit(f"{self.folder} does not build without a fault; see {self.log}")
        if self.run(["git", "apply", "-C1", str(mutant.patch)], 60)[0] != 0:
            return "does not apply"
        self.planted = mutant.targets
        return "" if self.build(mutant.targets) else "does not build"

    def take_back(self) -> None:
        subprocess.run(["git", "checkout", "-q", "-f", "--", "."], cwd=self.folder, check=True)

    def command(self, find: str) -> list[str]:
        kind, _, rest = find.partition(" ")
        if kind == "ctest":
            tests = ["ctest", "--test-dir", "build/cmake/release", "-j", str(JOBS), "-R", rest]
            return [*tests, "--no-tests=error", "--stop-on-failure", "--output-on-failure"]
        arguments = shlex.split(rest)
        if kind == "matrix":
            return [sys.executable, "tests/mpi/run_matrix.py", *arguments]
        if kind == "script":
            return [sys.executable, *arguments]
        return [sys.executable, "dev/check.py", "check", "--only", *arguments]

    def check(self, find: str) -> str:
        """Nothing when the check passes, else the name of the first thing that fails."""
        code, said = self.run(self.command(find), CHECK_S[find.split()[0]])
        if code == 124:
            return f"a hang of {find}"
        counts = SUMMARY.findall(said)
        if code == 0 and counts and int(counts[-1][0]) == 0:
            return "nothing was checked"  # where all is skipped, no fault would be found
        if code == 0:
            return ""
        names = [match[1] for pattern in FAILED if (match := pattern.search(said))]
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return (names or lines[-1:] or ["exit code"])[0][:100]


def broken_checks(tree: Tree, mutants: list[Mutant]) -> set[str]:
    """Builds once, and runs every check without a fault."""
    finds = list(dict.fromkeys(find for mutant in mutants for find in mutant.finds))
    targets = {target for mutant in mutants for target in mutant.targets}
    if any(not find.startswith("ctest ") for find in finds):
        targets.add("product")
    begin = time.monotonic()
    if not tree.build(sorted(targets)):
        raise SystemExit(f"{tree.folder} does not build without a fault; see {tree.log}")
    built_s = time.monotonic() - begin
    broken = set()
    for find in finds:
        if what := tree.check(find):
            print(f"fails without a fault: {find}: {what}", flush=True)
            broken.add(find)
    checked_s = time.monotonic() - begin - built_s
    print(f"built in {built_s:.0f} s; {len(finds)} checks without a fault took {checked_s:.0f} s", flush=True)
    return broken


def try_mutant(tree: Tree, mutant: Mutant, broken: set[str]) -> Outcome:
    begin = time.monotonic()
    outcome = Outcome(mutant, "NOT FOUND")
    try:
        if mutant.finds[0] in broken:
            outcome.verdict = "check fails without it"
        elif problem := tree.plant(mutant):
            outcome.verdict = problem
        else:
            for find in mutant.finds:
                if find not in broken and (by := tree.check(find)):
                    outcome.verdict, outcome.by = "found", by
                    break
    finally:
        tree.take_back()
    outcome.seconds = time.monotonic() - begin
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="only mutants whose name contains this word (repeatable)")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes to this file as well")
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "mutants", metavar="FOLDER",
                        help="where the clone is or will be (build/mutants)")  # fmt: skip
    arguments = parser.parse_args()
    words = arguments.only or [""]
    chosen = [path for path in sorted(PATCHES.glob("*.patch")) if any(word in path.stem for word in words)]
    mutants = [read_mutant(path) for path in chosen]
    if not mutants:
        raise SystemExit(f"no mutant in {PATCHES} is called so")
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:30} {mutant.what}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    tree = Tree(arguments.tree.resolve())
    tree.prepare()
    broken = broken_checks(tree, mutants)
    outcomes = []
    for mutant in mutants:
        outcome = try_mutant(tree, mutant, broken)
        outcomes.append(outcome)
        print(f"{mutant.name:30} {outcome.verdict:14} {outcome.seconds:5.0f} s  {outcome.by}", flush=True)
        if arguments.json:
            rows = [{"name": o.mutant.name, "what": o.mutant.what, "verdict": o.verdict, "by": o.by,
                     "seconds": round(o.seconds, 1)} for o in outcomes]  # fmt: skip
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    lost = [o for o in outcomes if o.verdict != "found"]
    for outcome in lost:
        print(f"failed: {outcome.mutant.name}: {outcome.verdict}: {outcome.mutant.what}")
    print(f"{len(outcomes) - len(lost)} passed, {len(lost)} failed, 0 skipped")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
