"""The command line of `zerohop report`."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import select
import sys
from pathlib import Path

from zerohop.command_line import Parser, must_be_writable
from zerohop.report import MEASURE, considered, drawings, page, predicted, text
from zerohop.report.document import Refused, join
from zerohop.report.rules import lines_of
from zerohop.report.sections import sections_of
from zerohop.report.summary import summary_of
from zerohop.report.timeline import timeline_section
from zerohop.reproduce import plots

ABOUT = f"""What a job's statistics say: ten lines of what limited it, what to try and what that would gain; then who
talks to whom, how bytes went, where the time went, who waited, how collectives were served. The page needs no network.

    mpiexec -n 8 {MEASURE} job.html ./app    run, measure, and make the page; its numbers are in job.json
    zerohop report stats.json                       of another run: the lines here, the rest as stats.html
    zerohop report rank-*.json -o job.html          a job that left a file for each rank (%r in the name)
    zerohop report stats.json --profile here.json   and what `zerohop tune --json here.json` predicts beside it
    zerohop report stats.json --text | less         everything as text, no page
    zerohop report stats.json --svg pictures        the pictures as files, for a paper
"""
LEAD = ("What limited this job, what to try", "Gains are upper bounds, and do not add up.")
NO_MPI = "the program left no statistics: not started, one rank, or no MPI that zerohop serves (zerohop doctor tells)"
CODES = "Exit code: 0; 1 where something that was asked for could not be made; 2 for a wrong word or file."


def parser() -> Parser:
    p = Parser("zerohop report", ABOUT, CODES)
    p.add_argument("--zerohop", default="zerohop", help=argparse.SUPPRESS)
    # Of zerohop run --report: the program, and when an older job's statistics were written.
    p.add_argument("--after", type=int, metavar="PID", help=argparse.SUPPRESS)
    p.add_argument("--older", type=int, metavar="NS", help=argparse.SUPPRESS)
    p.add_argument("files", nargs="+", metavar="stats.json", help="what ZEROHOP_STATS named; all files of one job")
    p.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page (default: the first file's name, .html)")
    p.add_argument("--trace", type=Path, metavar="FILE", help="show its timeline too, which zerohop run --trace wrote")
    printed = p.add_mutually_exclusive_group()
    printed.add_argument("--text", action="store_true", help="print all of it as text; a page only with -o")
    printed.add_argument("--json", action="store_true", help="print the numbers and lines as JSON; a page only with -o")
    p.add_argument(
        "--profile", metavar="FILE", help="costs of the job's machine, by `zerohop tune --json`, or built in"
    )
    p.add_argument("--svg", type=Path, metavar="FOLDER", help="write each picture there")
    p.add_argument("--png", type=Path, metavar="FOLDER", help="the same, as PNG")
    return p


def section_text(section: dict, width: int) -> str:
    lines = ["", text.bold(text.wrapped(section["title"], width))]
    lines += [text.wrapped(section["intro"], width)] if section["intro"] else []
    for t in section["tables"]:
        units = [unit for _, unit in t["head"]]
        cells = [[text.shown(v, u) for v, u in zip(row, units, strict=True)] for row in t["rows"]]
        lines += ["", text.wrapped(f"{t['caption']}:", width)]
        lines.append(text.table([title for title, _ in t["head"]], cells, units, width))
    return "\n".join(lines + [text.wrapped(note, width) for note in section["notes"]])


def about(job: dict) -> str:
    ranks = f"{text.times(job['world_size'], 'rank')} on {text.times(job['nodes'], 'node')}"
    library = job["host_version"].split(", package:")[0] or job["host"] or "an unknown MPI library"
    return f"{job['command'] or 'a job'}: {ranks}, under {library}"


def refuse(command: str, why: object, code: int) -> int:
    print(f"zerohop {command}: {why}", file=sys.stderr)
    return code


def write_page(path: Path, *parts) -> tuple[str, int]:
    """What became of the page, and the exit code."""
    if page.missing():
        return page.WANTED, 1
    try:
        if not page.may_overwrite(path):
            return f"{path} is no page of zerohop's, and stays as it is. Name another file with -o.", 1
        path.write_text(page.page(*parts), encoding="utf-8")
    except OSError as why:
        return f"{path}: {why.strerror}. Name another file with -o.", 1
    return f"the page is {path}", 0


def await_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])


def is_of_this_job(path: Path, older_ns: int) -> bool:
    try:
        return path.stat().st_mtime_ns != older_ns
    except OSError:
        return False


def main() -> int:
    gc.disable()  # it would look at millions of pairs again and again, and find no circle
    arguments = parser().parse_args()
    folders = {kind: folder for kind in ("svg", "png") if (folder := getattr(arguments, kind))}
    if arguments.after:
        await_end(arguments.after)
        sys.stdout = sys.stderr
        if not is_of_this_job(Path(arguments.files[0]), arguments.older):
            return refuse("report", NO_MPI, 2)
    try:
        summary = summary_of(join(arguments.files))
        if arguments.profile:
            predicted.add_predicted(summary, arguments.zerohop, arguments.profile)
    except Refused as why:
        return refuse("report", why, 2)
    try:
        must_be_writable((), folders.values())
    except OSError as why:
        return refuse("report", f"{why.filename}: {why.strerror}. Name another folder with --svg or --png.", 1)
    if folders and plots.pyplot() is None:
        return refuse("report", drawings.WANTED, 1)
    considered.add_considered(summary, arguments.zerohop)
    summary["lines"] = lines_of(summary)
    lines, sections, width = [line["text"] for line in summary["lines"]], sections_of(summary), text.columns()
    code = 0
    if arguments.trace:
        sections.insert(1, timeline_section(arguments.trace))
        if not sections[1]["pictures"]:
            code = refuse("report", f"no timeline: {sections[1]['notes'][0]}", 2)
    output, made = arguments.output, None
    if output is None and not (arguments.text or arguments.json):
        output = Path(Path(arguments.files[0]).with_suffix(".html").name)
    if output:  # before anything is printed: whoever read it may have gone
        program, _, words = summary["job"]["command"].partition(" ")
        title = f"Report of {f'{Path(program).name} {words}'.strip() or 'a job'}"
        made = write_page(output, title, about(summary["job"]), LEAD, lines, sections)
    if arguments.json:
        print(json.dumps(summary, indent=1))
    else:
        print(text.wrapped(about(summary["job"]), width), text.numbered(lines, width), sep="\n")
    if arguments.text:
        print(*(section_text(s, width) for s in sections), sep="\n")
    for kind, folder in folders.items():
        drawings.write(sections, folder, kind)
    if made:
        sys.stdout.flush()
        code = refuse("report", *made) or code
    return code


if __name__ == "__main__":
    sys.exit(main())
