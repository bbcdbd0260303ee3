"""The judgement of a limit on a median."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from zerohop.interval import Interval, median_interval

__all__ = ["judge_at_most", "median_interval"]


def judge_at_most(value: Interval, limit: float) -> str:
    """met when the whole interval keeps the limit, missed when the whole interval breaks it."""
    if not value.valid:
        return "not resolved"
    if value.high <= limit:
        return "met"
    return "missed" if value.low > limit else "not resolved"
