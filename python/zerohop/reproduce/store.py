"""Results of figures, kept in a folder one file each, so that an interrupted run goes on; and the making of one."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

from zerohop import apps
from zerohop.command_line import must_be_writable
from zerohop.reproduce import measure, misses, programs, simulate
from zerohop.reproduce.describe import DRAWN, IMPOSSIBLE, Figure
from zerohop.reproduce.judge import judge, paper_text, together
from zerohop.reproduce.measure import Lab, Made

SCHEMA = "zerohop-reproduce/1"
MAKERS = {
    "": measure.bench_figure,
    "model": simulate.model,
    "message_misses": misses.message_misses,
    **{name: getattr(programs, name) for name in ("programs", "costs", "errors", "readers", "breakdown")},
}


class Store:
    """A folder of results, this process's alone; OSError where it cannot be. A result of another build, of other words
    or other patience does not count."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        self.folder, self.lab = folder, lab
        must_be_writable((), (folder,))
        self.held = os.open(folder, os.O_RDONLY)
        fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @functools.cached_property
    def build(self) -> str:
        """Of what results are: zerohop and its programs, the MPI library, and what judges here."""
        command = Path(self.lab.zerohop).resolve()
        files = [command.with_name("zerohop-tools"), *command.parent.glob("bench_*")]
        files += [*command.parent.parent.glob("lib*/libzerohop*.so*"), *Path(__file__).parents[1].rglob("*.py")]
        launchers = [word for word in " ".join(self.lab.where).split() if shutil.which(word)]
        with contextlib.suppress(apps.Refused, OSError, ValueError):
            for host in apps.hosts_here(None, command.parent) if not launchers else ():
                launchers += host["mpiexec"][:1]  # a figure may name another one than --under
        for launcher in launchers:
            path = Path(shutil.which(launcher) or launcher).resolve()
            files += [path, *path.parent.parent.glob("lib/libmpi*.so*")]
        stats = [(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(files) if f.exists()]
        return hashlib.sha256(repr(stats).encode()).hexdigest()

    def key(self, figure: Figure) -> dict:
        lab = self.lab
        how = {"quick": lab.quick, "host": lab.host, "where": list(lab.where), "profile": lab.profile}
        return {"schema": SCHEMA, "figure": repr(figure), "build": self.build, **how}

    def kept(self, figure: Figure) -> dict | None:
        try:
            result = json.loads((self.folder / f"{figure.id}.json").read_text())
        except (OSError, ValueError):
            return None
        return result if result.get("key") == self.key(figure) else None

    def keep(self, figure: Figure, result: dict) -> None:
        if result["kind"] != figure.kind or not result["findings"]:
            return  # what was missing may be there the next time
        path = self.folder / f"{figure.id}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(result | {"key": self.key(figure)}, indent=1))
        new.replace(path)


def drawn(lab: Lab, figure: Figure) -> Made:
    made = Made()
    if figure.draws:
        made.svg = lab.drawing(*figure.draws)
        made.commands.append(["schedule", *figure.draws, "--svg", "FILE"])
    return made


def made_of(lab: Lab, figure: Figure) -> dict:
    """The result of a figure; Broken passes."""
    began, made, kind, why = time.monotonic(), Made(), figure.kind, ""
    try:
        if kind == IMPOSSIBLE:
            why = figure.here
        elif kind == DRAWN:
            made = drawn(lab, figure)
        else:
            made = MAKERS[figure.make](lab, figure)
    except measure.Unavailable as e:
        kind, why = IMPOSSIBLE, str(e)
    verdicts = [judge(f) for f in made.findings]
    findings = []
    for f, v in zip(made.findings, verdicts, strict=True):
        ours = vars(f.ours) if f.ours else None
        findings.append({"what": f.what, "paper": list(f.paper), "paper_text": paper_text(f), "ours": ours, **v.json()})
    state = kind if kind in (IMPOSSIBLE, DRAWN) else together(verdicts)
    return {
        "id": figure.id, "source": figure.source, "kind": kind, "why": why, "state": state, "findings": findings,
        "panels": [p.json() for p in made.panels], "notes": made.notes, "svg": made.svg,
        "commands": made.commands, "seconds": time.monotonic() - began,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }  # fmt: skip
