"""What else could have served a collective: asks the `zerohop` command, which speaks of the machine it runs on."""

from __future__ import annotations

import json
import re
import subprocess

from zerohop.report.document import word

MOST_ASKED = 40  # calls; each takes about 10 ms
PATIENCE_S = 10


def ask(zerohop: str, *words: str) -> object:
    """What the command prints as JSON; None where it does not."""
    try:
        made = subprocess.run([zerohop, *words, "--json"], capture_output=True, text=True, timeout=PATIENCE_S)
        return json.loads(made.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def collective_of(call: str) -> str:
    """ "allgather" of MPI_Iallgatherv; "" of what has no table of algorithms."""
    name = re.sub(r"_init$|_block$", "", call.removeprefix("MPI_")).lower()
    known = ("barrier", "bcast", "reduce_scatter", "reduce", "allreduce", "exscan", "scan", "gather", "scatter",
             "allgather", "alltoall")  # fmt: skip
    return next((k for k in known if re.fullmatch(f"i?{k}[vw]?", name)), "")


def in_force(zerohop: str, host: str, row: dict, nodes: int) -> str:
    """Which algorithm such a call would take here, and which source said so; "" where that is not known."""
    name, ranks = collective_of(row["call"]), row["ranks"]
    size = row["bytes_per_call"] / (ranks if name == "alltoall" else 1)
    nodes = nodes if nodes and ranks % nodes == 0 else 1
    words = ("info", "--collective", name, "--size", str(int(size)), "--ranks", str(ranks), "--nodes", str(nodes))
    told = ask(zerohop, *words)
    found, source = word(told, "under", host, "algorithm"), word(told, "under", host, "source")
    return f"{found} ({source})" if found else ""


def add_considered(summary: dict, zerohop: str) -> None:
    """Gives collectives `collective`, `candidates` (all algorithms) and `in_force`, where the command tells them."""
    rows = [c for c in summary["collectives"] if collective_of(c["call"]) and c["ranks"] > 1][:MOST_ASKED]
    listed = ask(zerohop, "schedule", "--list") if rows else None
    for row in rows if isinstance(listed, list) else ():
        row["collective"] = collective_of(row["call"])
        row["candidates"] = [a["algorithm"] for a in listed if a["collective"] == row["collective"]]
        row["in_force"] = in_force(zerohop, summary["job"]["host"], row, summary["job"]["nodes"])
