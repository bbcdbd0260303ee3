"""Collectives by each named algorithm (ZEROHOP_BCAST and its like), in all forms, inside a node and across nodes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

from matrix.programs import COLL_SOURCES, ROOT, Program, Setting, collectives_binary, run_cases
from matrix.results import Results, Test

CASES = (
    "coll_move.*_blocking",
    "coll_reduce.*_blocking",
    "coll_userop.*_blocking",
    "coll_move.*_nonblocking",
    "coll_errors.without_memory",
)
COMMAND = Path(os.environ.get("ZH_BUILD_DIR", ROOT / "build")) / "bin" / "zerohop"
CHUNK = "1000"  # so that vectors of the tests have several pieces, and a shorter last one


def _rounds() -> list[dict[str, str]]:
    """Variables of as many runs as the collective with most algorithms has; the others begin again."""
    listed = subprocess.run([COMMAND, "schedule", "--list", "--json"], capture_output=True, text=True, check=True)
    names = defaultdict(list)
    for entry in json.loads(listed.stdout):
        names[f"ZEROHOP_{entry['collective'].upper()}"].append(entry["algorithm"])
    most = max(len(algorithms) for algorithms in names.values())
    return [{name: all_[i % len(all_)] for name, all_ in names.items()} for i in range(most)]


def _ran(stats: Path, variables: dict[str, str]) -> Test:
    """Whether the named algorithms were what ran."""
    ran = json.loads(stats.read_text())["ranks"][0]["schedules"] if stats.exists() else {}
    named = {f"{name.removeprefix('ZEROHOP_').lower()} by {algorithm}" for name, algorithm in variables.items()}
    return Test("ok") if named & set(ran) else Test("fail", f"none of {variables} ran, but {ran}")


def _run(setting: Setting, log: list[str]) -> Results:
    results: Results = {}
    for number, variables in enumerate(_rounds() if setting.zerohop else [{}], 1):
        log.append(f"--- {variables}")
        named = dataclasses.replace(setting, env={**setting.env, **variables, "ZEROHOP_CHUNK": CHUNK})
        for cases in CASES:
            if setting.zerohop:
                stats = Path(setting.env["ZEROHOP_STATS"])
                stats.unlink(missing_ok=True)
            for name, test in run_cases(named, collectives_binary(setting.host), cases, log).items():
                if results.get(name) is None or test.status == "fail":
                    why = f"with algorithm {number} of each: {test.why}" if test.status == "fail" else test.why
                    results[name] = dataclasses.replace(test, why=why)
            if setting.zerohop:
                results[f"(algorithms {number} ran {cases})"] = _ran(stats, variables)
    return results


def _usable(host) -> str:
    return "" if host.name == "openmpi" else "which algorithm is named does not depend on the host"


def named_program() -> Program:
    return Program("collectives-named", _run, [*COLL_SOURCES, Path(__file__)], _usable, cost=6)
