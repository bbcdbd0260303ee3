"""Programs of this package, found beside the command wherever it is installed.

    zerohop python by_placement --minutes 20 -- --only latency    `bench p2p` until near and far ranks have launches
    zerohop python csv p2p.json > p2p.csv                         a table of what `zerohop bench --json` wrote
    zerohop python plot p2p.json latency.svg                      a picture of it
    zerohop python limits p2p.json                                the limits of point-to-point, met or missed

`--help` behind a name tells more.
"""

# What `zerohop` becomes for a command that is written in Python, too.
from __future__ import annotations

import difflib
import importlib.util
import os
import runpy
import shlex
import sys

from zerohop.command_line import fitted
from zerohop.report.text import columns

PROGRAMS = ("by_placement", "csv", "limits", "plot")


def unknown(name: str) -> int:
    near = difflib.get_close_matches(name, PROGRAMS, 1)
    what = f"there is no program {shlex.quote(name)};" if name else "a program is required;"
    meant = f" did you mean {near[0]}?" if near else ""
    print(f"zerohop python: {what}{meant} there are: {' '.join(PROGRAMS)}", file=sys.stderr)
    print("`zerohop python --help` tells more.", file=sys.stderr)
    return 2


def run(name: str) -> None:
    if name in ("-h", "--help"):
        print(fitted(__doc__, columns()))
    elif not name.replace("_", "").replace(".", "").isalpha() or importlib.util.find_spec(f"zerohop.{name}") is None:
        sys.exit(unknown(name))
    else:
        runpy.run_module(f"zerohop.{name}", run_name="__main__", alter_sys=True)


if sys.stdout is None:
    sys.exit("zerohop: cannot write the output: it is closed")
for stream in filter(None, (sys.stdout, sys.stderr)):
    stream.reconfigure(errors="replace")
try:
    try:
        run(sys.argv.pop(1) if len(sys.argv) > 1 else "")
    finally:
        sys.stdout.flush()
except OSError as why:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left to be written at the end
    broken = isinstance(why, BrokenPipeError)
    sys.exit(1 if broken else f"zerohop: {why.filename or 'cannot write the output'}: {why.strerror or why}")
