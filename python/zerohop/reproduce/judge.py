"""Whether a paper's finding holds here: one rule for all figures, in both directions.

Gains are judged by their logarithm: between half and one and a half times the paper's counts as the same. A gain far
above holds in its direction, and is told as another effect than the paper's; over ten times the paper's it reproduces
nothing. Other values are judged by the paper's range alone. A finding holds or fails where every value of the interval
says so; else it stays open. Six launches are the fewest of which an interval holds the median with 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from zerohop.interval import Interval, number

HOLDS, FAILS, OPEN = "holds", "does not hold", "not resolved here"
LEAST_LAUNCHES = 6
SAME = 1e-9  # a computed value meets a bound that it equals
FAR_TOO_MUCH = 10.0  # times the paper's gain


@dataclass
class Finding:
    """What the paper tells, and what was found of it here."""

    what: str
    paper: tuple[float, float | None]  # least and greatest; None: the direction alone
    ours: Interval | None
    is_gain: bool = True  # greater than 1 is better
    everywhere: bool = False  # the paper has no size at which the new way is slower
    factor: float = 1.0  # what is within so many times the paper's counts as the same; of what is no gain
    slower: list[str] = field(default_factory=list)  # sizes at which it surely is here
    why: str = ""  # where `ours` is missing
    never: bool = False  # ... as what the paper tells surely does not come about
    note: str = ""  # what else a reader has to know of `ours`


@dataclass
class Verdict:
    state: str
    because: str
    beyond: bool = False  # holds in its direction, by far more than the paper

    def json(self) -> dict:
        return asdict(self)


def band_of(finding: Finding) -> tuple[float, float]:
    low, high = finding.paper
    if not finding.is_gain:
        return low / finding.factor, math.inf if high is None else high * finding.factor
    return low**0.5, math.inf if high is None else high**1.5


def paper_text(finding: Finding) -> str:
    low, high = finding.paper
    if high is None:
        return f"more than {number(low)}"
    return number(low) if abs(high - low) < 0.005 * abs(high) else f"{number(low)} to {number(high)}"


def judge(finding: Finding) -> Verdict:
    """One line of a figure's end."""
    ours, told = finding.ours, paper_text(finding)
    if ours is None:
        return Verdict(FAILS if finding.never else OPEN, finding.why or "nothing was measured")
    if ours.count and (ours.count < LEAST_LAUNCHES or not ours.valid):
        return Verdict(OPEN, f"{ours.count} launches give no interval ({LEAST_LAUNCHES} do): {ours.text()} for {told}")
    verdict = within(finding, ours, told)
    verdict.because += f"; {finding.note}" if finding.note else ""
    if finding.slower:
        at = "slower at " + ", ".join(finding.slower)
        if finding.everywhere and verdict.state == HOLDS:
            return Verdict(FAILS, f"{at}; the paper has no such size: {verdict.because}")
        verdict.because += f"; {at}"
    return verdict


def within(finding: Finding, ours: Interval, told: str) -> Verdict:
    low, high = band_of(finding)
    mine = f"{ours.text()} for {told}"
    if finding.is_gain and ours.high <= 1 + SAME:
        return Verdict(FAILS, f"{'it is slower here' if ours.high < 1 - SAME else 'no gain'}: {mine}")
    if ours.high < low * (1 - SAME) - SAME:
        less = "no gain" if ours.low <= 1 else "the gain is smaller"
        return Verdict(FAILS, f"{less if finding.is_gain else 'less than the paper has'}: {mine}")
    if ours.low > high * (1 + SAME) + SAME:
        if not finding.is_gain:
            return Verdict(FAILS, f"more than the paper has: {mine}")
        if ours.low > FAR_TOO_MUCH * finding.paper[1]:
            return Verdict(FAILS, f"over {FAR_TOO_MUCH:g} times the paper's gain: {mine}", beyond=True)
        return Verdict(HOLDS, f"in its direction, and far above the paper's: another effect, {mine}", beyond=True)
    if finding.is_gain and ours.low <= 1:
        return Verdict(OPEN, f"the interval holds 1: {mine}")
    if ours.low < low - SAME or (not finding.is_gain and ours.high > high + SAME):
        return Verdict(OPEN, f"the interval reaches over what would count as the paper's: {mine}")
    return Verdict(HOLDS, mine)


def together(verdicts: Sequence[Verdict]) -> str:
    """The state of a figure by those of its findings: it holds where all do."""
    states = [v.state for v in verdicts]
    if not states:
        return OPEN
    return FAILS if FAILS in states else OPEN if OPEN in states else HOLDS
