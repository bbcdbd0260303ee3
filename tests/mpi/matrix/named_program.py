"""Collectives by each named algorithm (ZEROHOP_ALGORITHM), in all forms, inside a node and across nodes.

Those by host-leaders under every host, whose own collectives are the part between nodes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from matrix.launch import with_setting
from matrix.programs import COLL_SOURCES, ROOT, Program, Setting, collectives_binary, run_cases
from matrix.results import Results, Test

CASES = (
    "coll_move.*_blocking",
    "coll_reduce.*_blocking",
    "coll_userop.*_blocking",
    "coll_move.*_nonblocking",
)
COMMAND = Path(os.environ.get("ZH_BUILD_DIR", ROOT / "build")) / "bin" / "zerohop"
LEADERS = "host-leaders"
LEADER_CASES = (*CASES[:3], "coll_layouts.*_blocking", "coll_order.*", "coll_nodes.*_inside_a_node")
LEADER_RANKS = ("4n2", "5n2", "16n4", "4@2", "6@3")  # several nodes
CHUNK = "1000"  # so that vectors of the tests have several pieces, and a shorter last one


def _names() -> dict[str, list[str]]:
    """All algorithms, by collective."""
    listed = subprocess.run([COMMAND, "schedule", "--list", "--json"], capture_output=True, text=True, check=True)
    names = defaultdict(list)
    for entry in json.loads(listed.stdout):
        names[entry["collective"]].append(entry["algorithm"])
    return names


def _rounds() -> list[dict[str, str]]:
    """Names of as many runs as the collective with most algorithms has; the others begin again."""
    names = _names()
    most = max(len(algorithms) for algorithms in names.values())
    return [{name: all_[i % len(all_)] for name, all_ in names.items()} for i in range(most)]


def _ran(stats: Path) -> set[str]:
    """What ran on the first rank, each as "bcast by linear"."""
    return set(json.loads(stats.read_text())["ranks"][0].get("schedules", {})) if stats.exists() else set()


def _described(names: dict[str, str]) -> set[str]:
    return {f"{collective} by {algorithm}" for collective, algorithm in names.items()}


def _variables(env: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    named = ",".join(f"{collective}:{algorithm}" for collective, algorithm in names.items())
    return with_setting(env, "chunk", CHUNK) | ({"ZEROHOP_ALGORITHM": named} if named else {})


def _leaders() -> list[dict[str, str]]:
    return [{name: LEADERS for name, algorithms in _names().items() if LEADERS in algorithms}]


def _run(setting: Setting, log: list[str], rounds: Callable, all_cases: tuple[str, ...]) -> Results:
    results: Results = {}
    for number, names in enumerate(rounds() if setting.zerohop else [{}], 1):
        log.append(f"--- {names}")
        named = dataclasses.replace(setting, env=_variables(setting.env, names))
        missing = _described(names)
        for cases in all_cases:
            if setting.zerohop:
                stats = Path(setting.env["ZEROHOP_STATS"])
                stats.unlink(missing_ok=True)
            for name, test in run_cases(named, collectives_binary(setting.host), cases, log).items():
                if results.get(name) is None or test.status == "fail":
                    why = f"with algorithm {number} of each: {test.why}" if test.status == "fail" else test.why
                    results[name] = dataclasses.replace(test, why=why)
            # Between nodes what is started is the host's.
            serves = setting.placement.together() or not cases.endswith("_nonblocking")
            if setting.zerohop and serves:
                ran = _ran(stats)
                missing -= ran
                why = "" if _described(names) & ran else f"none of {names} ran, but {sorted(ran)}"
                results[f"(algorithms {number} ran {cases})"] = Test("fail", why) if why else Test("ok")
        if setting.zerohop and rounds is _leaders:
            results["(all of them ran)"] = Test("fail", f"not {sorted(missing)}") if missing else Test("ok")
    return results


def _usable(host) -> str:
    return "" if host.name == "openmpi" else "which algorithm is named does not depend on the host"


def named_programs() -> list[Program]:
    sources = [*COLL_SOURCES, Path(__file__)]
    return [
        Program("collectives-named", partial(_run, rounds=_rounds, all_cases=CASES), sources, _usable, cost=6),
        Program("collectives-leaders", partial(_run, rounds=_leaders, all_cases=LEADER_CASES), sources, cost=2),
    ]
