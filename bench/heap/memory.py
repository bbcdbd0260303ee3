"""The memory of a program and its descendants while it runs: the highest sum of PSS that sampling finds."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import time
from pathlib import Path

INTERVAL_S = 0.02
OURS = re.compile(r"memfd:.*zerohop")


@dataclasses.dataclass
class Peak:
    bytes: int = 0
    served: bool = False  # a memory file of zerohop held something


def descendants(pid: int) -> list[int]:
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        try:
            for task in Path(f"/proc/{one}/task").glob("*/children"):
                queue += [int(word) for word in task.read_text().split()]
        except OSError:  # it has ended
            continue
    return found


def memory_of(pid: int) -> tuple[int, dict[int, int]]:
    """PSS in bytes, and what each memory file of zerohop holds: inode -> bytes of it not mapped in this process."""
    text = Path(f"/proc/{pid}/smaps").read_text()
    pss, mapped, inode = 0, {}, None
    for line in text.splitlines():
        if line.startswith("Pss:"):
            pss += int(line.split()[1]) * 1024
        elif line.startswith("Rss:") and inode is not None:
            mapped[inode] = mapped.get(inode, 0) + int(line.split()[1]) * 1024
        elif line[0] in "0123456789abcdef" and "-" in line.split(None, 1)[0]:
            inode = int(line.split()[4]) if OURS.search(line) else None
    files = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        if OURS.search(os.readlink(link)):
            about = link.stat()
            files[about.st_ino] = about.st_blocks * 512
    return pss, {inode: max(0, held - mapped.get(inode, 0)) for inode, held in files.items()}


def peak_of(process: subprocess.Popen) -> Peak:
    """Samples until the process has ended; its output must not fill a pipe meanwhile."""
    peak = Peak()
    while process.poll() is None:
        total, hidden = 0, {}
        for pid in descendants(process.pid):
            try:
                pss, files = memory_of(pid)
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
            total += pss
            # A file that several processes hold counts once, by what the one that maps most of it leaves.
            for inode, bytes_hidden in files.items():
                hidden[inode] = min(bytes_hidden, hidden.get(inode, bytes_hidden))
                peak.served = True
        peak.bytes = max(peak.bytes, total + sum(hidden.values()))
        time.sleep(INTERVAL_S)
    return peak
