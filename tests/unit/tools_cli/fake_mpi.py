"""A launcher that starts nothing: it notes what it was to start, and writes the document that the program would have.

Its n-th launch is near (n), far (f) or fails (x) by the n-th letter of the file `placements`, the last one for ever;
s: near, but that of a bandwidth does not end; b: far, on processors of its own choice. With the argument "apart" ranks
are on different nodes: a message takes 20 µs, of which its sender is busy for 3. An arm of zerohop takes 2 µs, or what
FAKE_US has for its algorithm or algorithm/chunk; the host's take 4. Order 13 comes out wrong.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

MPIEXEC = """#!{python} -IS
import json, os, sys, time
from pathlib import Path
folder, args = Path({folder!r}), sys.argv[1:]
if "--version" in args:
    sys.exit(1)
option = lambda name, other="": args[args.index(name) + 1] if name in args else other
noted = folder / "noted"
number = len(noted.read_text().splitlines()) if noted.exists() else 0
letters = (folder / "placements").read_text()
letter = letters[min(number, len(letters) - 1)]
settings = dict(s.split("=") for s in os.environ.get("ZEROHOP_CONFIG", "").split(",") if s)
variables = {{k: v for k, v in os.environ.items() if k.startswith("ZEROHOP_") and k != "ZEROHOP_CONFIG"}}
with noted.open("a") as out:
    print(json.dumps(dict(zerohop="run" in args, only=option("--only"), args=args, settings=settings,
                          variables=variables, pid=os.getpid())), file=out)
if letter == "s" and option("--only") == "bandwidth":
    time.sleep(600)
if letter == "x":
    sys.exit(3)
arms, sizes = option("--arms").split(","), option("--sizes", "1K").split(",")
us, algorithm = json.loads(os.environ.get("FAKE_US", "{{}}")), variables.get("ZEROHOP_ALGORITHM", "")
mine = us.get(f"{{algorithm}}/{{settings.get('chunk')}}", us.get(algorithm, 2.0))
times = [[mine if arm == "zerohop" else 4.0] for arm in arms]


def size_of(word):
    return int(word.rstrip("KM")) << dict(K=10, M=20).get(word[-1], 0)


def cases(bench):
    for size in map(size_of, sizes):
        one = dict(bench=bench, size=size, buffers="malloc", metrics=dict(time_us=times, t_max_us=times, comm_us=times))
        if "--form" in args:
            one |= dict(variant=option("--form"))
        if bench.endswith("_bcast"):
            one |= dict(stride=8, metrics=dict(t_max_us=times))
        if bench == "overlap":
            one |= dict(variant="receiver_computes", metrics=dict(wait_us=times))
        if bench == "skew":
            for c2 in (10, 110):
                yield one | dict(c2_us=c2, metrics=dict(c3_us=[[64.0 * c2] for _ in arms]))
            continue
        if bench == "strided":
            one |= dict(size=4096)
            for stride in (0, 8, 512):
                yield one | dict(stride=stride, metrics=dict(time_us=[[(20 if apart else 2) + stride / 1000]]))
            gap, busy = 5 if option("-n") == "2" else 7, 3 if apart else 0.5
            yield one | dict(bench="prtt", metrics=dict(gap_us=[[gap]], overhead_us=[[busy]]))
            continue
        yield one | (dict(order=size) if bench == "matmul" else dict())


apart, free = "apart" in args, letter == "b" or "--processors" not in args
line = 0.0 if apart else dict(f=0.2, b=0.2).get(letter, 0.05)
placement = "several" if apart else "near" if line < 0.1 else "far"
document = dict(placement=placement, line_us=dict(before=line, after=line),
                ranks=int(option("-n")), processors=8, arms=arms, zerohop_loaded="run" in args,
                errors=int("13" in sizes), cpus=[-1, -1] if free else json.loads("[" + option("--processors") + "]"),
                cases=[c for bench in option("--only", "matmul").split(",") for c in cases(bench)])
Path(option("--out")).write_text(json.dumps(document))
"""


class FakeMpi:
    """The launcher and programs for it in a folder; `zerohop` is the command under test."""

    def __init__(self, folder, zerohop):
        self.folder, self.zerohop = Path(folder), zerohop
        texts = {"mpiexec": MPIEXEC.format(python=sys.executable, folder=str(folder))}
        texts |= {f"bench_{name}_ompi": "#!/bin/sh\n" for name in ("p2p", "coll", "matmul")}
        for name, text in texts.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        self.host = ["--mpiexec", str(self.folder / "mpiexec"), "--abi", "ompi", "--programs", str(self.folder)]

    def place(self, placements):
        (self.folder / "placements").write_text(placements)
        (self.folder / "noted").unlink(missing_ok=True)

    def launches(self):
        noted = self.folder / "noted"
        return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []

    def environment(self, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROHOP_", "LD_PRELOAD", "PMI", "OMPI"))}
        return clean | {"TMPDIR": str(self.folder)} | more

    def run(self, *words, timeout=60, **more):
        """A command of zerohop, which has the fake launcher's options already."""
        command = [self.zerohop, *words]
        env = self.environment(**more)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
