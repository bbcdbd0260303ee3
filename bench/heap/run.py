#!/usr/bin/env python3
"""What zerohop costs programs that send nothing large: time and memory, without it, with shared memory off, by default.

    bench/heap/run.py [--quick] [--rounds N] [--only WORD]... [--json FILE]
    bench/heap/run.py --list                    # the cases
    bench/heap/run.py --null                    # all three are bare: every ratio must come out at 1

A round starts each case in the three ways one right after the other, in an order that turns with the rounds; a ratio
is formed within a round. The table shows the median ratio with its distribution-free 95 % interval (order statistics of
a binomial, as `zerohop bench` uses; fewer than 6 rounds resolve nothing). Limits: time and memory with the heap at most
2 % above those without zerohop; the first half MiB of difference in memory is the library's own and not counted.
    met            the whole interval keeps the limit
    missed         the whole interval breaks it
    not resolved   neither: more rounds are needed, or the machine is too noisy
Memory is the PSS of all processes of the case, and what zerohop's memory files hold without its being mapped; programs
of others are sampled for it in launches of their own, because sampling disturbs. Nothing is sent, so nothing may become
shared: a case in which something did has failed. The exit code is 1 when a limit is missed, 2 when a case could not run
or shared something.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev"), str(ROOT / "python")]

from cases import Case, cases  # noqa: E402
from memory import peak_of  # noqa: E402
from zerohop.interval import median_interval  # noqa: E402

import hosts  # noqa: E402

LIBRARY = ROOT / "build" / "lib" / "libzerohop.so"
MODES = ("bare", "off", "on")
LIMIT = 1.02
LIBRARY_BYTES = 512 << 10
TIMEOUT_S = 300


def environment(mode: str) -> dict[str, str]:
    """The variables of one way to run; a launcher's variable is there in all, so that programs behave alike."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZEROHOP", "LD_PRELOAD"))}
    clean["PMI_RANK"], clean["PMI_SIZE"] = "0", "1"
    if mode != "bare":
        clean["LD_PRELOAD"] = str(LIBRARY)
    if mode == "off":
        clean["ZEROHOP_HEAP"] = "0"
    return clean


@dataclasses.dataclass
class Sample:
    value: float
    memory_bytes: float
    served: bool


def launch(case: Case, mode: str, folder: Path, with_memory: bool) -> Sample:
    """One launch. Benchmarks of ours say their numbers; of other programs the elapsed time is taken, or the memory."""
    start = time.monotonic()
    process = subprocess.Popen(
        case.command, env=environment(mode), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        sampled = peak_of(process) if with_memory and not case.says_itself else None
        said, errors = process.communicate(timeout=TIMEOUT_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        raise RuntimeError(f"{case.name} ({mode}) ended with {process.returncode}: {errors.strip()[-300:]}")
    if case.says_itself:
        document = json.loads(said)
        return Sample(document["value"], document["memory_bytes"], document["served"])
    return Sample(elapsed, sampled.bytes if sampled else 0, bool(sampled and sampled.served))


def measure(case: Case, rounds: int, null: bool, folder: Path, tick) -> dict:
    samples: dict[str, list[Sample]] = {mode: [] for mode in MODES}
    memory: dict[str, list[float]] = {mode: [] for mode in MODES}
    served = False
    for index in range(rounds):
        order = MODES[index % 3 :] + MODES[: index % 3]
        for mode in order:
            real = "bare" if null else mode
            sample = launch(case, real, folder, False)
            samples[mode].append(sample)
            # Memory varies little: a few launches with the sampler are enough.
            if not case.says_itself and index < min(rounds, 6):
                sample = launch(case, real, folder, True)
            if case.says_itself or index < min(rounds, 6):
                memory[mode].append(sample.memory_bytes)
                served |= mode == "on" and sample.served
            tick()

    def ratios(of: str, values: dict[str, list[float]]) -> list[float]:
        return [a / b for a, b in zip(values[of], values["bare"], strict=True) if b > 0]

    times = {mode: [s.value for s in samples[mode]] for mode in MODES}
    time_on, time_off = median_interval(ratios("on", times)), median_interval(ratios("off", times))
    memory["on"] = [max(min(b, m), m - LIBRARY_BYTES) for m, b in zip(memory["on"], memory["bare"], strict=True)]
    memory_on = median_interval(ratios("on", memory))
    return {
        "case": case.name,
        "unit": case.unit,
        "rounds": rounds,
        "bare": median_interval(times["bare"]).median,
        "bare_memory_bytes": median_interval(memory["bare"]).median,
        "time_off": dataclasses.asdict(time_off),
        "time_on": dataclasses.asdict(time_on),
        "time_verdict": time_on.at_most(LIMIT),
        "memory_on": dataclasses.asdict(memory_on),
        "memory_verdict": memory_on.at_most(LIMIT),
        "served": served,
    }


def number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def interval(found: dict) -> str:
    return f"{found['median']:.3f} [{found['low']:.2f}, {found['high']:.2f}]" if found["count"] else "-"


def show(rows: list[dict], null: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    title = "NULL RUN, zerohop in none of them: " if null else ""
    table = Table(title=f"{title}ratio to the run without zerohop, median [95 % interval]; limit {LIMIT}")
    for name in ("case", "bare", "off, time", "default, time", "", "bare MiB", "default, memory", "", "shared"):
        table.add_column(name, justify="left" if name in ("case", "", "shared") else "right", no_wrap=True)
    colours = {"met": "green", "missed": "red", "not resolved": "yellow"}

    def coloured(verdict: str) -> str:
        return f"[{colours[verdict]}]{verdict}[/]"

    for row in rows:
        served = "[red]YES[/]" if row["served"] and not null else "-"
        table.add_row(
            row["case"],
            f"{number(row['bare'])} {row['unit']}",
            interval(row["time_off"]),
            interval(row["time_on"]),
            coloured(row["time_verdict"]),
            number(row["bare_memory_bytes"] / 2**20),
            interval(row["memory_on"]),
            coloured(row["memory_verdict"]),
            served,
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for what in ("time", "memory"):
        verdicts = [row[f"{what}_verdict"] for row in rows]
        print(f"{what}: " + ", ".join(f"{verdicts.count(v)} {v}" for v in colours))


def use_tools_environment() -> None:
    """Starts again under the interpreter that has rich."""
    python = hosts.ENV_DIR / "tools" / "bin" / "python"
    if not python.exists():
        raise SystemExit("no build/env/tools: run dev/setup")
    if Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), *sys.argv])


def main() -> int:
    use_tools_environment()
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few cases, 7 rounds: two to three minutes")
    parser.add_argument("--rounds", type=int, help="rounds of every case (default 12; with --quick 7)")
    parser.add_argument("--only", action="append", default=[], help="only cases whose name contains this (repeatable)")
    parser.add_argument("--json", type=Path, help="also write all numbers here")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--null", action="store_true", help="run without zerohop in all three ways: shows the noise")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zerohop-heap-bench-") as name:
        folder = Path(name)
        chosen, absent = cases(ROOT, folder, arguments.quick)
        chosen = [c for c in chosen if not arguments.only or any(word in c.name for word in arguments.only)]
        if arguments.list or not chosen:
            print("\n".join(c.name for c in chosen) or "no such case")
            return 0 if chosen else 2
        missing = [str(p) for p in (LIBRARY, *(Path(c.command[0]) for c in chosen)) if not Path(p).exists()]
        if missing:
            raise SystemExit(f"not built: {', '.join(sorted(set(missing)))} (make build)")
        for why in absent:
            print(f"left out: {why}", file=sys.stderr)
        rounds = arguments.rounds or (7 if arguments.quick else 12)
        rows, broken = [], 0
        columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=len(chosen) * rounds * 3)
            for case in chosen:
                progress.update(task, description=case.name)
                try:
                    rows.append(measure(case, rounds, arguments.null, folder, lambda: progress.advance(task)))
                except (RuntimeError, subprocess.TimeoutExpired, ValueError) as problem:
                    broken += 1
                    progress.console.print(f"[red]could not run[/] {problem}")
                if not sys.stderr.isatty():
                    print(f"{len(rows)} of {len(chosen)} cases", file=sys.stderr, flush=True)
    show(rows, arguments.null)
    if arguments.json:
        document = {"limit": LIMIT, "null": arguments.null, "left_out": absent, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    shared = [row["case"] for row in rows if row["served"] and not arguments.null]
    if shared:
        print("memory became shared: " + ", ".join(shared), file=sys.stderr)
    if broken or shared:
        return 2
    return int(any("missed" in (row["time_verdict"], row["memory_verdict"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
