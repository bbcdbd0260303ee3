"""Numbers, sentences and tables as text of a width."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
WORD = 24  # letters of a word that a table does not break


def amount(n: float) -> str:
    """Bytes, as `zerohop doctor` tells them."""
    unit = 0
    while abs(n) >= 1024 and unit + 1 < len(UNITS):
        n, unit = n / 1024, unit + 1
    return f"{n:,.{1 if unit else 0}f} {UNITS[unit]}"


def digits(n: float) -> str:
    """Three of them, or all before the point."""
    return f"{n:,.0f}" if abs(n) >= 999.5 or n == 0 else f"{n:#.3g}".rstrip(".")


def seconds(s: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if abs(s) * factor >= 0.9995 or s == 0:
            return f"{digits(s * factor)} {unit}"
    return f"{digits(s * 1e6)} µs"


def whole(n: float) -> str:
    return f"{n:,.0f}"


def percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def times(n: float, what: str) -> str:
    """ "1 call", "12 calls"."""
    return f"{whole(n)} {what}{'' if n == 1 else 's'}"


FORMATS = {"bytes": amount, "s": seconds, "count": whole, "share": percent}


def shown(value: object, unit: str) -> str:
    """Of a cell of a table: text, a number of this unit, nothing, or a number with its own text."""
    if isinstance(value, tuple):
        return value[1]
    return value if isinstance(value, str) else "-" if value is None else FORMATS[unit](value)


def columns() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def shown_columns() -> int:
    """Of what is broken for the eye alone, such as a table that is no report's: any number where nobody looks."""
    return columns() if os.environ.get("COLUMNS") or sys.stdout.isatty() else sys.maxsize


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> str:
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def bold(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else f"\033[1m{text}\033[0m"


def numbered(texts: list[str], width: int) -> str:
    return "\n".join(wrapped(text, width, f"{n:>2}. ", "    ") for n, text in enumerate(texts, 1))


def parts(wide: list[int], width: int) -> list[list[int]]:
    """Columns of a table that fit beside each other; others go on below, with the first one again."""
    found = [[0]]
    for i in range(1, len(wide)):
        if len(found[-1]) > 1 and sum(wide[k] + 2 for k in found[-1]) + wide[i] > width:
            found.append([0])
        found[-1].append(i)
    return found


def table(head: list[str], cells: list[list[str]], units: list[str], width: int) -> str:
    """Aligned; columns of words (unit "") give way where the width is too small, and their lines are broken."""
    wide = [max(len(row[i]) for row in [head, *cells]) for i in range(len(head))]
    words = [i for i, unit in enumerate(units) if not unit]
    most = min(WORD, width // 2 - 1)
    least = {i: min(max(len(w) for row in [head, *cells] for w in row[i].split() or [""]), most) for i in words}
    while sum(wide) + 2 * len(wide) - 2 > width:
        widest = max((i for i in words if wide[i] > least[i]), key=lambda i: wide[i], default=None)
        if widest is None:
            break
        wide[widest] -= 1
    lines = []
    for part in parts(wide, width):
        lines += [""] if lines else []
        for row in [head, *cells]:
            broken = {i: textwrap.wrap(row[i], wide[i]) or [""] if i in words else [row[i]] for i in part}
            for n in range(max(map(len, broken.values()))):
                line = {i: b[n] if n < len(b) else "" for i, b in broken.items()}
                fitted = (c.ljust(wide[i]) if i in words else c.rjust(wide[i]) for i, c in line.items())
                lines.append("  ".join(fitted).rstrip())
    return "\n".join(lines)
