"""The interval of a median, as tools/bench/stats.cpp has it. Used by what measures in Python."""

from __future__ import annotations

import dataclasses
import math
import statistics


@dataclasses.dataclass
class Interval:
    mid: float = 0.0
    low: float = 0.0
    high: float = 0.0
    count: int = 0
    valid: bool = False  # enough values for the confidence that was wanted


def median_interval(values: list[float], confidence: float = 0.95) -> Interval:
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
