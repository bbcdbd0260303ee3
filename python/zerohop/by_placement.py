"""`zerohop bench p2p` until both placements that a machine takes, near and far, have enough launches of each host.

    zerohop python by_placement --minutes 20 --json out.json -- --only latency --under openmpi

Runs rounds of `zerohop bench p2p` (with the words behind --) until each placement that was seen has 10 launches of each
kind (a host bare, zerohop under a host), or the time is up. Then each launch of zerohop is paired with that of each
other kind which is closest in time at the same placement, and all are judged together: `--rejudge`. Exit code 1: no
ratio is resolved.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from zerohop.command_line import Parser, amount, must_be_writable

ENOUGH = 10


def kind_of(launch: dict) -> tuple:
    return (launch["host"], launch["zerohop"], launch["setting"])


def placement_of(launch: dict) -> str:
    return launch["document"].get("placement", "")


def has_enough(launches: list[dict]) -> bool:
    counts: dict[tuple, Counter] = defaultdict(Counter)
    kinds: dict[str, set] = defaultdict(set)
    for launch in launches:
        kinds[launch["group"]].add(kind_of(launch))
        if placement_of(launch) in ("near", "far"):
            counts[launch["group"], placement_of(launch)][kind_of(launch)] += 1
    return bool(counts) and all(of[kind] >= ENOUGH for (group, _), of in counts.items() for kind in kinds[group])


def pair_by_time(launches: list[dict]) -> None:
    """Gives the launches rounds such that a round has one of zerohop and the closest of each other kind."""
    parts: dict[tuple, dict[tuple, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        parts[launch["group"], placement_of(launch)][kind_of(launch)].append(launch)
    for kinds in parts.values():
        reference = next((k for k in sorted(kinds) if k[1] and not k[2]), None)
        if reference is None:
            continue
        for number, launch in enumerate(kinds[reference]):
            launch["round"] = number
        free = len(kinds[reference])
        for kind, others in kinds.items():
            if kind == reference:
                continue
            pairs = [
                (abs(r["at_s"] - o["at_s"]), i, k) for i, r in enumerate(kinds[reference]) for k, o in enumerate(others)
            ]
            taken: tuple[set[int], set[int]] = (set(), set())
            for _, i, k in sorted(pairs):
                if i not in taken[0] and k not in taken[1]:
                    others[k]["round"] = i
                    taken[0].add(i)
                    taken[1].add(k)
            for k in set(range(len(others))) - taken[1]:
                others[k]["round"] = free
                free += 1


def main() -> int:
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = Parser("zerohop python by_placement", __doc__)
    parser.add_argument("--minutes", type=amount, default=10)
    parser.add_argument("--zerohop", default="zerohop", help="the command (default: in PATH)")
    parser.add_argument("--json", type=Path, help="write the judged rows to this file")
    parser.add_argument("--launches", type=Path, help="keep the launches in this file")
    arguments, words = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    must_be_writable((arguments.json, arguments.launches))
    bench = [arguments.zerohop, "bench", "p2p"]
    merged: dict = {"launches": [], "raw": []}
    begun, number = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="zerohop-placements-") as name:
        part = Path(name) / "round.json"
        while not has_enough(merged["launches"]):
            at_s = time.monotonic() - begun
            if at_s > 60 * arguments.minutes:
                print(f"the time is up ({arguments.minutes:g} minutes)", file=sys.stderr)
                break
            number += 1
            print(f"round {number}, at most {arguments.minutes - at_s / 60:.1f} minutes left", file=sys.stderr)
            command = [*bench, "--rounds", "1", *words, "--launches", str(part)]
            if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
                return 2
            document = json.loads(part.read_text())
            for launch in document["launches"]:
                launch["at_s"] += at_s
            merged = document | {k: merged[k] + document[k] for k in ("launches", "raw")}
        pair_by_time(merged["launches"])
        kept = arguments.launches or Path(name) / "launches.json"
        kept.write_text(json.dumps(merged))
        out = arguments.json or Path(name) / "judged.json"
        code = subprocess.run([*bench, "--rejudge", str(kept), "--json", str(out)], check=False).returncode
        rows = json.loads(out.read_text())["rows"] if code == 0 else []
        if code == 0 and not any((row["to_own_host"] or {}).get("valid") for row in rows):
            code = 1  # the table says why
    counts = Counter((placement_of(x), *kind_of(x)) for x in merged["launches"])
    for (placement, host, zerohop, setting), n in sorted(counts.items()):
        print(f"{placement:<6} {host} {'zerohop ' if zerohop else 'bare '}{setting}: {n} launches", end="")
        print("" if n >= ENOUGH or placement not in ("near", "far") else ", not resolved")
    return code


if __name__ == "__main__":
    sys.exit(main())
