"""What a long command is at, how far it is, and how long the rest will take: on standard error, in the way of no table
or JSON. On a terminal one line that is rewritten, elsewhere a plain line a minute, so none of what is done sooner;
the same that commands in C++ show (tools/cli/progress.h). Needs no package: the python3 of a cluster often has none."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator

LINE_S = 60.0
REWRITE_S = 5.0  # seldom, for it may run beside a measurement
REWRITE, CUT, WRAP = "\r\033[K", "\033[?7l", "\033[?7h"


def duration(seconds: float) -> str:
    """ "12 s", "3 min", "2.5 h"."""
    hours = f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else hours


class Progress(contextlib.AbstractContextManager):
    """`count` steps of `work` in all. `each_s`: what a unit of work is thought to take until one has been done."""

    def __init__(self, command: str, count: int, work: float | None = None, each_s: float = 0) -> None:
        self.command, self.count, self.work, self.each_s = command, count, work or count, each_s
        self.number, self.done, self.taken = 0, 0.0, 0.0
        self.doing, self.begin = "", time.monotonic()
        self.began, self.next_line = self.begin, self.begin + LINE_S
        self.terminal = sys.stderr.isatty()
        self.lock, self.over = threading.Lock(), threading.Event()
        threading.Thread(target=self._tick, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.over.set()

    def left_s(self) -> float | None:
        """None: nobody knows yet."""
        each = self.taken / self.done if self.done else self.each_s
        return max((self.work - self.done) * each - (time.monotonic() - self.began), 0) if each else None

    def text(self) -> str:
        spent, left = time.monotonic() - self.begin, self.left_s()
        after, still = f", after {duration(spent)}" * (spent >= 1), f", about {duration(left)} left" if left else ""
        return f"zerohop {self.command}: {self.doing}, {self.number} of {self.count}{after}{still}"

    @contextlib.contextmanager
    def step(self, what: str, work: float = 1) -> Iterator[None]:
        with self.lock:
            self.doing, self.began, self.number = what, time.monotonic(), self.number + 1
            self._show()
        try:
            yield
        finally:
            with self.lock:
                self.done, self.taken = self.done + work, self.taken + time.monotonic() - self.began
                self.doing = ""
                if self.terminal:
                    print(end=REWRITE, file=sys.stderr, flush=True)

    def each(self, items: Iterable, what: str) -> Iterator:
        """A step for what is done with each of them."""
        for item in items:
            with self.step(what):
                yield item

    def _show(self) -> None:
        if self.terminal:
            print(end=f"{REWRITE}{CUT}{self.text()}{WRAP}", file=sys.stderr, flush=True)
        elif time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE_S
            print(self.text(), file=sys.stderr, flush=True)

    def _tick(self) -> None:
        while not self.over.wait(REWRITE_S):
            with self.lock:
                if self.doing:
                    self._show()
