"""The command lines of the programs here: their help fits the terminal and is a line where it cannot be written."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from zerohop.report.text import columns, wrapped

# Of a text of JSON: two backslashes, the one before a control character, or one that is not escaped.
OBEYED = re.compile(r"\\\\|\\(?=u00(?:[01]|7[fF]|[89])|[bfnrt])|[\x7f-\x9f]")
LEAST_ROOM = 20  # columns of an explanation; where there are fewer beside it, it goes below


def fitted_line(line: str, width: int) -> str:
    """Of an example: broken below its explanation, which two blanks divide from it, else below its start."""
    start = len(line) - len(line.lstrip())
    gap = re.search(r"\S(  +)\S", line)
    at = gap.end(1) if gap else start
    if at + LEAST_ROOM > width:
        return f"{line[:at].rstrip()}\n{wrapped(line[at:], width, ' ' * (start + 4), ' ' * (start + 4))}"
    return line[:at] + wrapped(" " * at + line[at:], width, "", " " * at).lstrip()


def fitted(text: str, width: int) -> str:
    """Paragraphs and items of lists broken anew; lines that are indented are examples, and each stays one."""
    blocks: list[str] = []
    for line in text.splitlines():
        item = bool(blocks) and blocks[-1].startswith("- ") and line.startswith("  ")
        prose = bool(blocks) and bool(blocks[-1]) and blocks[-1][0] not in " -" and bool(line) and line[0] not in " -"
        if item or prose:
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line)
    return "\n".join(
        block if len(block) <= width else fitted_line(block, width) if block[0] == " "
        else wrapped(block, width, "", "  " if block[0] == "-" else "")
        for block in blocks
    )  # fmt: skip


def loads(text: str) -> object:
    """JSON of others, whose names come to a terminal: what that would obey is spelled out. ValueError if it is none."""
    try:
        return json.loads(OBEYED.sub(lambda m: "\\\\" if m[0][0] == "\\" else f"\\\\u{ord(m[0]):04x}", text))
    except RecursionError as why:
        raise ValueError("too deep") from why


def read_object(path: Path) -> dict:
    """A user's file, {} if it is no JSON object; ends the program where it cannot be read."""
    try:
        document = loads(path.read_text(encoding="utf-8", errors="replace"))
    except ValueError:
        document = {}
    except OSError as why:
        print(f"zerohop: {path}: {why.strerror}", file=sys.stderr)
        sys.exit(2)
    return document if isinstance(document, dict) else {}


def results(path: Path) -> dict:
    """What `zerohop bench --json` wrote; ends the program where it is none."""
    document = read_object(path)
    rows = document.get("rows")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return document
    print(f"zerohop: {path} is no file that `zerohop bench ... --json` wrote", file=sys.stderr)
    sys.exit(2)


def amount(text: str) -> float:
    """Of a time, as an argument has it: nan, inf and what is negative are none."""
    if not 0 <= float(text) < math.inf:
        raise ValueError(text)
    return float(text)


def must_be_writable(files: Iterable[Path | None], folders: Iterable[Path | None] = ()) -> None:
    """OSError where results cannot lie: better told now than after hours."""
    for file in filter(None, files):
        if not file.is_fifo():  # its reader would see the end
            file.open("a").close()
    for folder in filter(None, folders):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


class Fitted(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return fitted(text, columns())


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, about: str | None, epilog: str = "") -> None:
        super().__init__(prog=prog, description=about, epilog=epilog, formatter_class=Fitted)

    def parse_args(self, args: list[str] | None = None) -> argparse.Namespace:
        """An empty value, such as of a variable that is not set, would do nothing, or something else."""
        if any(re.fullmatch(r"(--[\w-]+=)?", word) for word in (sys.argv[1:] if args is None else args)):
            self.error("an empty word names nothing: give a value, or leave the option out")
        return super().parse_args(args)

    def print_help(self, file=None) -> None:
        # argparse overlooks that it cannot write.
        print(self.format_help(), end="", file=file or sys.stdout, flush=True)
