"""What is being made, and how long the rest takes: a bar on a terminal that has `rich`, else a line a minute."""

from __future__ import annotations

import sys
import threading
import time

LINE_S = 60.0


class Progress:
    """Minutes are the table's, corrected by how long the figures made so far took."""

    def __init__(self, minutes: dict[str, float]) -> None:
        self.left = dict(minutes)
        self.planned = self.taken = 0.0
        self.doing, self.began = "", time.monotonic()
        self.done = threading.Event()
        self.bar = self._bar(sum(minutes.values()))
        if self.bar is None:
            threading.Thread(target=self._lines, daemon=True).start()

    def _bar(self, total: float):
        if not sys.stderr.isatty():
            return None
        try:
            from rich.console import Console
            from rich.progress import Progress as Bar
        except ImportError:
            return None
        bar = Bar(console=Console(stderr=True), transient=True)
        bar.start()
        self.task = bar.add_task("", total=total)
        return bar

    def minutes_left(self) -> float:
        factor = self.taken / self.planned if self.planned > 0 else 1.0
        spent = (time.monotonic() - self.began) / 60 if self.doing else 0.0
        return max(0.0, sum(self.left.values()) * factor - spent)

    def text(self) -> str:
        return f"{self.doing}: {len(self.left)} figures left, about {self.minutes_left():.0f} min"

    def start(self, figure: str) -> None:
        self.doing, self.began = figure, time.monotonic()
        if self.bar is not None:
            self.bar.update(self.task, description=self.text())
        elif sys.stderr.isatty():
            print(self.text(), file=sys.stderr, flush=True)

    def end(self) -> None:
        minutes = self.left.pop(self.doing, 0.0)
        if minutes > 0:
            self.planned, self.taken = self.planned + minutes, self.taken + (time.monotonic() - self.began) / 60
        if self.bar is not None:
            self.bar.advance(self.task, minutes)

    def close(self) -> None:
        self.done.set()
        if self.bar is not None:
            self.bar.stop()

    def _lines(self) -> None:
        while not self.done.wait(LINE_S):
            print(f"zerohop reproduce: {self.text()}", file=sys.stderr, flush=True)
