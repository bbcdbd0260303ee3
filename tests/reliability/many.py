"""Very many of one thing: what many.c does, under each host."""

from __future__ import annotations

import dataclasses

from jobs import MANY, Case, metrics, program, start, wrong_with


@dataclasses.dataclass(frozen=True)
class Form:
    name: str
    word: str
    count: int
    quick_count: int  # 0: not in the quick form
    env: tuple[tuple[str, str], ...] = ()
    compared: bool = False  # run without zerohop too: what a metric says of zerohop is the difference


SMALL = (("ZEROHOP_MEMORY", "2M"),)
FORMS = [
    Form("unexpected messages", "unexpected", 1_000_000, 50_000),
    Form("unexpected messages, 2 MiB of shared memory", "unexpected", 300_000, 20_000, SMALL),
    Form("posted receives", "posted", 1_000_000, 50_000),
    Form("messages of each of 3 senders to a slow rank", "slow", 50_000, 500),
    Form("messages of each of 3 senders to a slow rank, no CMA", "slow", 50_000, 0, (("ZEROHOP_CMA", "0"),)),
    Form("communicators at once", "comms", 10_000, 0, (), True),
    Form("communicators made and freed", "dupfree", 100_000, 0, (), True),
    Form("sends on one communicator, 2 MiB of shared memory, another goes on", "pools", 20_000, 1_000, SMALL),
]
TIMEOUT_S = 420


def run(form: Form, host, quick: bool) -> Case:
    ranks = 4 if not quick or form.word == "slow" else 2
    count = form.quick_count if quick else form.count
    words = [program(host, MANY), form.word, str(count)]
    case = Case("many", form.name, host.name, "failed", "")
    outcome = start(host, ranks, words, TIMEOUT_S, env=dict(form.env))
    if wrong := wrong_with(outcome, ranks):
        alone = start(host, ranks, words, TIMEOUT_S, zerohop=False)
        known = wrong_with(alone, ranks)
        case.status, case.note = ("skipped", f"fails without zerohop too: {known}") if known else ("failed", wrong)
        return case
    case.status = "passed"
    found = metrics(outcome)
    notes = [f"{found.pop('communicators', count):,.0f}"]
    bare = metrics(start(host, ranks, words, TIMEOUT_S, zerohop=False)) if form.compared else {}
    for name, value in found.items():
        notes.append(f"{name}: {value:,.0f}" + (f" (without zerohop {bare[name]:,.0f})" if name in bare else ""))
    case.note = "; ".join(notes)
    return case
