"""What a calibration that was made beside other work costs later, on a quiet machine, against built-in thresholds.

    python3 -m zerohop.calibrate_beside 0 1 2 4 --rounds 10 -- --only latency --under openmpi

Calibrates once beside each number of busy loops, each time into a cache of its own, then runs rounds of `zerohop bench
p2p` (the words behind --) with a fresh copy of each calibration and with built-in thresholds, and prints the median
ratio of each size to the built-in time of the same round, with its 95 % interval.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from zerohop.command_line import Parser  # noqa: E402
from zerohop.interval import median_interval  # noqa: E402

CALIBRATING_JOBS = 3  # two that find the same put curves in force; one more, for beside other work one may find nothing


def times(words: list[str], folder: Path, **env: str) -> dict[tuple, float]:
    """One round of `zerohop bench p2p`: its time by placement, benchmark and size."""
    out = folder / "round.json"
    command = [str(ROOT / "build" / "bin" / "zerohop"), "bench", "p2p", "--rounds", "1", "--raw", "off", *words]
    subprocess.run([*command, "--json", str(out)], env=os.environ | env, stdout=subprocess.DEVNULL, check=True)
    rows = json.loads(out.read_text())["rows"]
    return {(r["placement"], r["bench"], r["size"]): r["zerohop"]["median"] for r in rows if r["metric"] == "time_us"}


def main() -> int:
    parser = Parser("zerohop python calibrate_beside", __doc__)
    parser.add_argument("loops", nargs="+", type=int, help="numbers of busy loops")
    parser.add_argument("--rounds", type=int, default=10)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, words = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    ratios: dict[tuple, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="zerohop-calibrations-") as name:
        folder = Path(name)
        for n in arguments.loops:
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
            try:
                for _ in range(CALIBRATING_JOBS):
                    times(words, folder, ZEROHOP_CACHE=str(folder / str(n)))
            finally:
                for process in busy:
                    process.kill()
        for _ in range(arguments.rounds):
            built_in = times(words, folder, ZEROHOP_PROFILE="builtin")
            for n in arguments.loops:
                with tempfile.TemporaryDirectory(dir=folder) as copy:
                    shutil.copytree(folder / str(n), copy, dirs_exist_ok=True)
                    for case, us in times(words, folder, ZEROHOP_CACHE=copy).items():
                        if case in built_in:
                            ratios[(*case, n)].append(us / built_in[case])
    for (placement, bench, size, n), values in sorted(ratios.items()):
        i = median_interval(values)
        told = f"{i.median:.3f} [{i.low:.3f}, {i.high:.3f}]" if i.valid else f"{i.median:.3f} [?]"
        print(f"{placement} {bench} {size:>8} B  beside {n}: {told} of the built-in time, {i.count} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
