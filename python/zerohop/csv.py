"""The rows of a file that `zerohop bench ... --json` wrote, as comma-separated values on standard output.

    zerohop python csv p2p.json > p2p.csv

Nested values have a column each, named by their path: `to_best_peer.median`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from zerohop.command_line import Parser, results


def flat(value: object, path: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for name, inner in value.items() for k, v in flat(inner, f"{path}.{name}" if path else name).items()}


def main() -> int:
    parser = Parser("zerohop python csv", __doc__)
    parser.add_argument("--zerohop", help=argparse.SUPPRESS)
    parser.add_argument("file", type=Path)
    rows = [flat(row) for row in results(parser.parse_args().file)["rows"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns)
    writer.writeheader()
    writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
