"""The command line of `zerohop reproduce`."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import sys
from pathlib import Path

from zerohop import apps
from zerohop.command_line import Parser, must_be_writable
from zerohop.progress import Progress
from zerohop.reproduce import page, plots, show, store
from zerohop.reproduce.describe import Figure
from zerohop.reproduce.figures import FIGURES
from zerohop.reproduce.measure import Broken, Lab

ABOUT = """The figures and tables of the five papers: table, the paper's headline number, ours with its 95 % interval,
and whether the finding holds here. --list names all, and says what stands for each or why nothing can.

    zerohop reproduce limic-10 hybrid-2a
    zerohop reproduce --all --html out.html        goes on where it was interrupted
"""
CODES = "Exit code: 0 where all was made (whether findings hold or not), 1 where a command failed, 2 for a wrong word."


def parser() -> Parser:
    p = Parser("zerohop reproduce", ABOUT, CODES)
    p.add_argument("--zerohop", default="zerohop", help=argparse.SUPPRESS)
    p.add_argument("figures", nargs="*", metavar="figure", help="such as hybrid-2a, limic-10, limic-t1, ml-7, cc-6c")
    p.add_argument("--all", action="store_true", help="all of them, and a closing table")
    p.add_argument("--list", action="store_true", help="tell of each, or of those named; runs nothing")
    p.add_argument("--quick", action="store_true", help="two rounds: a look at the figure, which resolves nothing")
    p.add_argument("--fresh", action="store_true", help="forget what the folder has")
    p.add_argument(
        "--folder", type=Path, default=Path("zerohop-reproduce"), help="of the results (default: %(default)s)"
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    p.add_argument("--html", type=Path, metavar="FILE", help="write them as one page, which refers to nothing outside")
    p.add_argument("--svg", type=Path, metavar="DIR", help="write each figure's plot")
    p.add_argument("--under", default="openmpi", metavar="HOST", help="the MPI library, but for ml-8 (%(default)s)")
    p.add_argument("--mpiexec", help="this launcher, with its arguments, instead")
    p.add_argument(
        "--bench", type=words, default=[], metavar="OPTIONS", help="more options of `zerohop bench`, such as --abi ompi"
    )
    p.add_argument(
        "--profile", default="", help="costs of simulated figures: built in, or a file (default: each its own)"
    )
    return p


def words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(f"{text}: {why}") from why


def chosen(names: list[str], *, everything: bool) -> list[Figure]:
    known = {f.id: f for f in FIGURES}
    wrong = [n for n in names if n not in known]
    if wrong:
        raise SystemExit(refuse(f"no such figure: {', '.join(wrong)} (--list names them)"))
    return list(FIGURES) if everything else [known[n] for n in dict.fromkeys(names)]


def refuse(why: str) -> int:
    print(f"zerohop reproduce: {why}", file=sys.stderr)
    return 2


def make(lab: Lab, figures: list[Figure], kept: store.Store, *, fresh: bool) -> tuple[dict[str, dict], int]:
    """Results by figure, each told as soon as it is there; how many failed."""
    results, failed = {}, 0
    old = {} if fresh else {f.id: r for f in figures if (r := kept.kept(f))}
    new = [f.minutes for f in figures if f.id not in old]
    with Progress("reproduce", len(new), sum(new), each_s=60) as progress:
        for figure in figures:
            shown = contextlib.nullcontext() if figure.id in old else progress.step(figure.id, figure.minutes)
            try:
                with shown:
                    result = old.get(figure.id) or store.made_of(lab, figure)
            except Exception as why:  # whatever it is, the others are made
                failed += 1
                what = "" if isinstance(why, Broken) else f"{type(why).__name__}: "
                print(f"zerohop reproduce: {figure.id}: {what}{why}", file=sys.stderr)
                continue
            if figure.id not in old:
                kept.keep(figure, result)
            results[figure.id] = result
            print(show.figure_text(figure, result), flush=True)
    return results, failed


def about(lab: Lab, results: dict[str, dict]) -> str:
    dates = sorted(r["date"] for r in results.values())
    rounds = f"{lab.rounds} rounds, zerohop under {lab.host}"
    return (
        f"{dates[0]} to {dates[-1]}; {rounds}. Intervals hold the median with 95 %; [?]: too few launches."
        if dates
        else rounds
    )


def write(arguments: argparse.Namespace, lab: Lab, figures: list[Figure], results: dict[str, dict]) -> None:
    if arguments.json:
        document = {"schema": store.SCHEMA, "figures": list(results.values())}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.html:
        arguments.html.write_text(page.page(figures, results, about(lab, results)))
    if arguments.svg:
        for name, result in results.items():
            if svg := plots.svg_of(result):
                (arguments.svg / f"{name}.svg").write_text(svg)
    if (arguments.html or arguments.svg) and plots.pyplot() is None:
        print(f"zerohop reproduce: {plots.WANTED}", file=sys.stderr)


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = parser().parse_args()
    figures = chosen(arguments.figures, everything=arguments.all or (arguments.list and not arguments.figures))
    if arguments.list and (arguments.json or arguments.html or arguments.svg):
        return refuse("--list writes no file: leave --json, --html and --svg out")
    if arguments.list:
        print(show.list_text(figures), end="")
        return 0
    if not figures:
        return refuse("name figures, or --all (--list tells of each)")
    if arguments.html and page.jinja() is None:
        return refuse(page.WANTED)
    where = (["--mpiexec", arguments.mpiexec] if arguments.mpiexec else []) + arguments.bench
    with contextlib.suppress(apps.Refused, OSError, ValueError):  # none is needed to simulate
        hosts = [host["name"] for host in apps.hosts_here(None, Path(arguments.zerohop).parent)]
        elsewhere = any(word.startswith(("--mpiexec", "--hosts-py")) for word in where)
        if not elsewhere and arguments.under not in (*hosts, Lab.host):
            return refuse(f"no MPI library {arguments.under} here (there are: {', '.join(hosts)})")
    lab = Lab(arguments.zerohop, arguments.quick, arguments.under, tuple(where), arguments.profile)
    try:
        if arguments.profile:
            lab.run("tune", "--profile", arguments.profile)
        must_be_writable((arguments.json, arguments.html), (arguments.svg,))
        kept = store.Store(arguments.folder, lab)
    except BlockingIOError:
        return refuse(f"another run uses {arguments.folder}: wait for it, or name another --folder")
    except OSError as why:
        return refuse(f"nothing could be kept: {why}")
    except Broken as why:
        return refuse(str(why))
    results, failed = make(lab, figures, kept, fresh=arguments.fresh)
    write(arguments, lab, figures, results)
    if arguments.all:
        print(show.closing_text(figures, results), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nzerohop reproduce: interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
