"""What a profile says that a job's messages and collectives cost, beside what they took. Asks the `zerohop` command."""

from __future__ import annotations

import functools
import re

from zerohop.report.considered import ask, collective_of
from zerohop.report.document import Refused, part

MODEL = "mlog_nP+links"
POINT_TO_POINT = re.compile(
    r"MPI_(I?[bsr]?send|I?m?recv|I?sendrecv.*|Start.*|Wait.*|Test.*|I?m?probe)(_c)?", re.IGNORECASE
)
WAITS = ("for_message", "for_receive", "untold")


class Prices:
    """µs by this profile, as far as `zerohop schedule` tells."""

    def __init__(self, zerohop: str, profile: str) -> None:
        self.zerohop, self.profile, self.of = zerohop, profile, functools.cache(self._of)
        self.about = part(self.of("bcast", "-r", "2"), "profile")
        if not self.about:
            raise Refused(f"{profile}: no profile of costs: `zerohop tune --profile {profile}` says why")

    def _of(self, *words: str) -> dict:
        return part(ask(self.zerohop, "schedule", *words, "--no-steps", "--profile", self.profile), "costs")

    def message(self, size: float, apart: float) -> float:
        """Both ends of a message within a node; `apart`: the share that goes between sockets."""
        us = part(self.of("bcast", "-r", "2", "-b", str(round(size))), "message_us")
        return us.get("intra-cmp", 0) * (1 - apart) + us.get("inter-cmp", 0) * apart

    def collective(self, row: dict, nodes: int) -> float | None:
        """One call of a rank. None of teams, which no model knows, of the host's, and of calls that do not block."""
        name, ranks = collective_of(row["call"]), row["ranks"]
        if row["by"] in ("host", "team", "nothing to do") or row["call"].lower() != f"mpi_{name}" or ranks < 2:
            return None
        nodes = nodes if nodes and ranks % nodes == 0 else 1
        size = round(row["bytes_per_call"] / (ranks if name == "alltoall" else 1))
        costs = self.of(name, "-a", row["by"], "--nodes", str(nodes), "-r", str(ranks), "-b", str(size))
        return next((m["walk_us"] for m in costs.get("models", ()) if m["model"] == MODEL), None)


def add_predicted(s: dict, zerohop: str, profile: str) -> None:
    """`predicted`: the profile, messages by way and size, and sums beside what was measured, which is None where it was
    not; collectives get `predicted_us`. Refused where that is no profile."""
    prices, t = Prices(zerohop, profile), s["time"]
    apart = (s["matrix"] or {}).get("between_sockets") or 0
    messages = []
    for way, c in ((w["way"], c) for w in s["sent"]["ways"] if w["way"] != "self" for c in w["sizes"] if c["messages"]):
        us = prices.message(c["bytes"] / c["messages"], apart)
        messages.append(c | {"way": way, "predicted_us": us, "predicted_s": us * c["messages"] / 1e6})
    measured = {c["call"]: c["seconds"] for c in t["calls"]} if t else {}
    moving = sum(seconds for call, seconds in measured.items() if POINT_TO_POINT.fullmatch(call))
    moving = max(moving - sum(t["waits"][k]["seconds"] for k in WAITS), 0) if t else None
    sums = [("messages", sum(c["messages"] for c in messages), sum(c["predicted_s"] for c in messages), moving)]
    for row in s["collectives"]:
        row["predicted_us"] = prices.collective(row, s["job"]["nodes"])
    for call in dict.fromkeys(row["call"] for row in s["collectives"]):
        own = [row for row in s["collectives"] if row["call"] == call]
        if all(row["predicted_us"] is not None for row in own):
            predicted = sum(row["predicted_us"] * row["calls"] for row in own) / 1e6
            sums.append((call, sum(row["calls"] for row in own), predicted, measured.get(call)))
    keys = ("what", "calls", "predicted_s", "measured_s")
    s["predicted"] = {
        "profile": prices.about,
        "messages": messages,
        "sums": [dict(zip(keys, x, strict=True)) for x in sums],
    }
