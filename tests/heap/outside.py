#!/usr/bin/env python3
"""Programs of others without zerohop, with it, and with it while most of their large memory is shared.

    tests/heap/outside.py [--quick] [--budget SECONDS] [--each SECONDS] [--program NAME]... [--mode on|torture]...
    tests/heap/outside.py [--part WORD] --list

Each program comes in parts. A part runs plain, then `on` (libzerohop.so preloaded, default settings, behind a
launcher's environment), then in `torture` (libheap_torture.so in front of it, see torture_preload.c): every test that
passes plain must pass there too, and all other output must be the same. What fails plain as well is nobody's fault
here: what differs is run plain twice more before it counts. A run also fails where the library was not seen in the
process, or where the torture shared nothing. Programs take turns until the time is up, so that each runs at least once;
what did not fit is said and counted as skipped. Output of runs that went wrong is kept in build/check/outside. Settings
of the environment: ZH_HEAP_LIBRARY, ZH_HEAP_TORTURE (the libraries), ZH_ENV_DIR (what dev/setup full fetched). Closing
line: `N passed, N failed, N skipped`, one for each part and way.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from outside_programs import all_parts
from outside_run import Missing, Part, Results, Run, Untouched, Wrong
from support import LIBRARY, ROOT, TORTURE

KEPT = ROOT / "build" / "check" / "outside"
MODES = ("plain", "on", "torture")
AGAIN = 2  # more plain runs of what differs


def differences(plain: Results, other: Results) -> dict[str, str]:
    """What the other run did not do as well as the plain one."""
    found = {}
    for name, value in plain.items():
        now = other.get(name, "missing")
        if now != value and value != "failed" and not (value == "skipped" and now == "passed"):
            found[name] = f"{value[:80]!r} is {now[:80]!r}"
    for name, now in other.items():
        if name not in plain and now != "passed":
            found[name] = f"nothing is {now[:80]!r}"
    return found


def broken_judgement() -> int:
    """How many of these cases differences() judges otherwise than it should: proof that it can fail."""
    plain = {"a": "passed", "b": "failed", "c": "skipped", "d": "17"}
    cases = [
        (plain, 0), ({**plain, "a": "failed"}, 1), ({**plain, "b": "passed", "c": "passed"}, 0),
        ({**plain, "a": "skipped", "d": "18"}, 2), ({"b": "failed", "c": "failed"}, 3), ({**plain, "e": "failed"}, 1),
        ({}, 3),
    ]  # fmt: skip
    return sum(len(differences(plain, other)) != expected for other, expected in cases)


def one_run(part: Part, mode: str, name: str = "") -> tuple[Results | None, str, float]:
    """The results, or none and why; what the torture did; seconds. The output is kept when something is wrong."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zh-outside-", ignore_cleanup_errors=True) as folder:
        run = Run(part, mode, Path(folder), begin + max(60, part.seconds * 8))
        why, results = "", None
        try:
            results = part.run(run)
            if not results:
                why = "said nothing that could be compared"
            elif mode != "plain" and not run.loaded:
                why = "libzerohop.so was not seen in any of its processes"
        except Wrong as problem:
            why = str(problem)
        except (ValueError, OSError) as problem:
            why = repr(problem)
        finally:
            run.end()
        did = ""
        if mode == "torture":
            counts = run.torture_counts()
            did = ", ".join(f"{value} {name}" for name, value in counts.items())
            if not why and part.refused and counts["shared"] != 0:
                why = f"the torture shared what must stay as it is ({did})"
            elif not why and counts["shared"] == 0 and not part.refused:
                if part.forked:
                    raise Untouched(f"it works in forked children, which the library leaves alone ({did})")
                why = f"the torture shared nothing ({did})"
        kept = KEPT / re.sub(r"\W+", "-", f"{part.title}-{mode}{name}")[:120]
        shutil.rmtree(kept, ignore_errors=True)
        if why or any(value == "failed" for value in (results or {}).values()):
            kept.mkdir(parents=True)
            for file in [*Path(folder).glob("*.txt"), *Path(folder).glob("*.xml")]:
                shutil.copy2(file, kept)
    return (None if why else results), why or did, time.monotonic() - begin


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    spent: dict[str, float] = dataclasses.field(default_factory=dict)

    def skip(self, part: Part, modes: list[str], why: str) -> None:
        self.skipped += len(modes)
        print(f"skipped: {part.title}: {why}", flush=True)


def compare(part: Part, modes: list[str], tally: Tally) -> None:
    """Runs one part in every mode."""
    plain, why, seconds = one_run(part, "plain")
    if plain is None:
        tally.skip(part, modes, f"does not run plain either: {why}")
        return
    print(f"        {part.title}, plain: {describe(plain)}, {seconds:.1f} s", flush=True)
    known_bad = {name for name, value in plain.items() if value == "failed"}
    for mode in modes:
        try:
            results, said, seconds = one_run(part, mode)
        except Untouched as why:
            tally.skip(part, [mode], f"{mode}: {why}")
            continue
        wrong = {"the run": said} if results is None else differences(plain, results)
        if results is not None and wrong:
            for again in range(AGAIN):
                once_more, _, more = one_run(part, "plain", f"-{again + 2}")
                seconds += more
                for name in differences(plain, once_more or {}) if once_more is not None else ():
                    known_bad.add(name)
            for name in known_bad & wrong.keys():
                print(f"        {part.title}, {mode}: fails plain too, now and then: {name}")
            wrong = {name: what for name, what in wrong.items() if name not in known_bad}
        tally.passed += not wrong
        tally.failed += bool(wrong)
        note = "" if results is None else f": {describe(results)}"
        torture = f" ({said})" if mode == "torture" and results is not None else ""
        print(f"{'FAILED' if wrong else 'ok':7} {part.title}, {mode}{note}, {seconds:.1f} s{torture}", flush=True)
        for name, what in list(wrong.items())[:12]:
            print(f"failed: {part.title}, {mode}: {name}: {what}", flush=True)
        if len(wrong) > 12:
            print(f"        and {len(wrong) - 12} more")


def describe(results: Results) -> str:
    verdicts = [sum(value == verdict for value in results.values()) for verdict in ("passed", "failed", "skipped")]
    if not any(verdicts):
        return f"{len(results)} results"
    return f"{verdicts[0]} tests passed, {verdicts[1]} failed, {verdicts[2]} skipped"


def has_share() -> bool:
    try:
        return hasattr(ctypes.CDLL(LIBRARY), "zh_share")
    except OSError:
        return False


def run_all(parts: list[Part], modes: list[str], skipped: int, budget: float, each: float) -> int:
    tally, begin = Tally(skipped=skipped), time.monotonic()
    queues: dict[str, list[Part]] = {}
    for part in parts:
        queues.setdefault(part.program, []).append(part)
    first = True
    while any(queues.values()):
        for program, queue in queues.items():
            if not queue:
                continue
            part, start = queue.pop(0), time.monotonic()
            needs = part.seconds * (1 + len(modes))
            if not first and start - begin + needs > budget:
                tally.skip(part, modes, f"{needs:.0f} s do not fit into the {budget:.0f} s of all programs")
            elif not first and tally.spent[program] + needs > each:
                tally.skip(part, modes, f"{needs:.0f} s do not fit into the {each:.0f} s of one program")
            else:
                try:
                    compare(part, modes, tally)
                except Missing as why:
                    tally.skip(part, modes, str(why))
            tally.spent[program] = tally.spent.get(program, 0) + time.monotonic() - start
        first = False
    print("seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in tally.spent.items()))
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short part of some programs, within a minute")
    parser.add_argument("--budget", type=float, default=720, metavar="SECONDS", help="for all programs (default 720)")
    parser.add_argument("--each", type=float, default=150, metavar="SECONDS", help="for each program (default 150)")
    parser.add_argument("--program", action="append", metavar="NAME", help="only this one")
    parser.add_argument("--part", help="only parts whose name contains this")
    parser.add_argument("--mode", action="append", choices=MODES[1:], help="only this one beside plain (default both)")
    parser.add_argument("--list", action="store_true", help="print the parts and stop")
    arguments = parser.parse_args()
    if broken_judgement():
        raise SystemExit("outside.py: the judgement of differences is broken")
    parts = [
        part
        for part in all_parts()
        if (not arguments.program or part.program in arguments.program)
        and (arguments.part or "") in part.name
        and (part.quick or not arguments.quick)
    ]
    if arguments.list or not parts:
        print("\n".join(f"{part.title} ({part.seconds:.0f} s a run)" for part in parts) or "no such part")
        return 0 if parts else 2
    for library in (LIBRARY, TORTURE):
        if not Path(library).exists():
            raise SystemExit(f"not built: {library} (make build, dev/build release)")
    modes = arguments.mode or list(MODES[1:])
    skipped = 0
    if "torture" in modes and not has_share():
        modes.remove("torture")
        skipped = len(parts)
        print("skipped: torture of all parts: libzerohop.so exports no zh_share, it would do nothing", flush=True)
    return run_all(parts if modes else [], modes, skipped, arguments.budget, arguments.each)


if __name__ == "__main__":
    sys.exit(main())
