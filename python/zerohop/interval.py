"""A median and its interval by order statistics, as tools/bench/stats.cpp has it. Used by what measures in Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Interval:
    median: float = 0.0
    low: float = 0.0
    high: float = 0.0
    count: int = 0  # values; 0: computed, not measured
    valid: bool = False  # enough values for the confidence that was wanted

    @classmethod
    def computed(cls, value: float, low: float | None = None, high: float | None = None) -> Interval:
        """Of a model or a count, which has no launches."""
        return cls(value, value if low is None else low, value if high is None else high, 0, True)

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval | None:
        """None if there are no values."""
        return median_interval(values) if values else None

    def at_most(self, limit: float) -> str:
        """met when the whole interval keeps the limit, missed when the whole interval breaks it."""
        if not self.valid:
            return "not resolved"
        if self.high <= limit:
            return "met"
        return "missed" if self.low > limit else "not resolved"

    def text(self) -> str:
        mid, low, high = (number(v) for v in (self.median, self.low, self.high))
        if self.count == 0 and self.low == self.high:
            return mid
        return f"{mid} [{low}, {high}]" if self.valid else f"{mid} [?]"


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """[x(k), x(n+1-k)] with the largest k whose binomial coverage is still at least `confidence`."""
    if not values:
        return Interval()
    ordered, n = sorted(values), len(values)

    def coverage(k: int) -> float:
        return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

    k = 1
    while 2 * (k + 1) <= n and coverage(k + 1) >= confidence:
        k += 1
    return Interval(statistics.median(ordered), ordered[k - 1], ordered[n - k], n, n > 1 and coverage(k) >= confidence)
