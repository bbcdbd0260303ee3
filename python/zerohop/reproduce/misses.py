"""Level 2 cache misses of a message by hardware counters (hybrid paper, figure 4).

Cachegrind is no substitute: it sees no access that the kernel makes, where the kernel copy's are, and no line that the
other processor takes away, which are most of shared memory's.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
from pathlib import Path

from zerohop import apps
from zerohop.interval import Interval
from zerohop.reproduce.describe import KERNEL, SHARED, Arm, Figure
from zerohop.reproduce.measure import Lab, Made, Panel, Table, Unavailable, finding_of

EVENTS = ("l2_rqsts.miss", "l2_cache_req_stat.ls_rd_blk_c", "l2d_cache_refill")  # Intel, AMD, Arm
SIZES = (1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
WRAPPER = """#!/bin/sh
# A benchmark program of a rank, counted where zerohop is loaded; zerohop's arm alone.
program={programs}/$(basename "$0")
case "$LD_PRELOAD" in *libzerohop*) ;; *) exec "$program" "$@" ;; esac
for word; do shift; [ "$word" != host,zerohop,host ] || word=zerohop; set -- "$@" "$word"; done
exec {perf} stat -x, -e {event} -o {folder}/$$.csv -- "$program" "$@"
"""


def countable() -> str:
    """The event that this machine counts."""
    perf = shutil.which("perf")
    if perf is None:
        raise Unavailable("level 2 misses need hardware counters: no `perf` is installed")
    for event in EVENTS:
        r = subprocess.run([perf, "stat", "-x,", "-e", event, "true"], capture_output=True, text=True, check=False)
        if r.returncode == 0 and r.stderr.split(",")[0].isdigit():
            return event
    raise Unavailable(
        "level 2 misses need hardware counters, which this machine does not show (a virtual machine, or "
        "kernel.perf_event_paranoid); cachegrind sees neither the kernel's copy nor the other processor's accesses"
    )


def counted(folder: Path) -> float:
    """Misses of all ranks of the launches that lie there."""
    total = 0.0
    for path in folder.glob("*.csv"):
        for row in csv.reader(path.read_text().splitlines()):
            if row and row[0].isdigit():
                total += int(row[0])
    return total


def messages(folder: Path) -> int:
    """Sent by all ranks, by zerohop's statistics."""
    return sum(sum(sizes["messages"].values()) for p in folder.glob("*.json") if (sizes := apps.sizes_of(p)))


def one_launch(lab: Lab, arm: Arm, at: int, event: str) -> float:
    """Misses of one message, start and end of the job included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        programs = Path(lab.zerohop).resolve().parent
        for program in programs.glob("bench_p2p_*"):
            wrapper = folder / "bin" / program.name
            perf = shutil.which("perf")
            wrapper.write_text(WRAPPER.format(programs=programs, perf=perf, event=event, folder=folder))
            wrapper.chmod(0o755)
        options = f"{arm.options},ZEROHOP_STATS={folder}/%p.json"
        words = ["bench", "p2p", "--only", "latency", "--buffers", "malloc", "--raw", "off", "--sizes", str(at)]
        words += [*lab.under, "--rounds", "1", "--programs", str(folder / "bin")]
        lab.run(*words, "--arm", f"{arm.name}:{options}")
        sent = messages(folder)
        return counted(folder) / sent if sent else 0.0


def message_misses(lab: Lab, figure: Figure) -> Made:
    event = countable()
    table = Table(f"ping-pong, {event} of both ranks")
    for n in range(lab.rounds):
        for at in SIZES:
            for arm in (SHARED, KERNEL):
                misses = one_launch(lab, arm, at, event)
                table.value[arm.name][at][n] = table.to_host[arm.name][at][n] = misses
    panel = Panel(table.title, "bytes", "misses of a message")
    for name, points in table.value.items():
        panel.series[name] = {x: i for x, by in points.items() if (i := Interval.of(list(by.values())))}
    return Made([panel], [finding_of(table, claim) for claim in figure.claims])
