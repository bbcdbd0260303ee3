"""How much of the processors other programs use: what dev/demo.py says of the machine before and after it measures.

Counts as `zerohop bench` does (tools/bench/machine_load.h); silent where the kernel keeps no count.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

BUSY_PROCESSORS, BUSY_SHARE = 0.2, 0.02


def busy_seconds(stat: str) -> float | None:
    """Processor time of all programs by the text of /proc/stat; time that a hypervisor gave to others counts."""
    words = stat.split("\n", 1)[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, niced, system, idle, _, interrupts, soft, stolen = map(float, words[1:9])
    busy = user + niced + system + interrupts + soft + stolen
    return busy / os.sysconf("SC_CLK_TCK") if busy + idle > 0 else None


class Watch:
    """From its making on; the time of this process and of its children that have ended is not counted."""

    def __init__(self) -> None:
        self.begun = self._now()

    @staticmethod
    def _now() -> tuple[float, float | None]:
        own = os.times()
        try:
            busy = busy_seconds(Path("/proc/stat").read_text())
        except OSError:
            busy = None
        used = own.user + own.system + own.children_user + own.children_system
        return time.monotonic(), None if busy is None else busy - used

    def others(self) -> float:
        """Processors that others used on average."""
        (begun, before), (ended, after) = self.begun, self._now()
        if before is None or after is None or ended <= begun:
            return 0.0
        return max(0.0, (after - before) / (ended - begun))

    def warning(self, when: str) -> str:
        """One line when the machine is busy, else nothing."""
        processors, others = os.cpu_count() or 1, self.others()
        if others < max(BUSY_PROCESSORS, BUSY_SHARE * processors):
            return ""
        return f"{when} other programs used {others:.1f} of {processors} processors: times are longer and vary more"


def warning_at_start() -> str:
    """Looks for a fifth of a second, in which nothing of ours may run."""
    watch = Watch()
    time.sleep(0.2)
    return watch.warning("the machine is busy: before the start")
