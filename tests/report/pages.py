#!/usr/bin/env python3
"""The pages of `zerohop report` and `zerohop compare`, as a browser shows them.

    build/env/plots/bin/python tests/report/pages.py build/bin/zerohop [--shots FOLDER]

Each page is opened from its file in headless Chromium: no error, no request, the numbers of the file, buttons by mouse
and keyboard, both themes, no sideways scrolling at 360 px, saved pictures, 1,024 ranks. Fails where the browser is
missing, unless ZH_WITHOUT_BROWSER is 1. --shots leaves pictures of the pages.
Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "tools_cli"))
import fake_statistics  # noqa: E402

WIDTHS = (360, 800, 1400)
EVIL = "</script><script>document.title='taken'</script><b>"
MOST_BYTES = 12 << 20  # of a page of 1,024 ranks
MOST_WRITE_S, MOST_OPEN_S = 10, 10  # ... of which all talk to all, of processors
LARGE_WIDTHS = (400, 800, 1600)
# Arguments of fake_statistics.document(), by the name of the page.
DOCUMENTS = {
    "usual": {"ranks": 16, "per_node": 8, "pattern": "grid"},
    "large": {"ranks": 1024, "per_node": 64, "pattern": "all"},
    "sparse": {"ranks": 1024, "per_node": 64, "pattern": "grid"},
    "one": {"ranks": 1, "per_node": 1},
    "none": {"ranks": 0},
    "killed": {"end": "running", "measured": False, "old": True},
    "other": {"ranks": 16, "per_node": 8, "command": ["./heat", "--faster"]},
    "evil": {"command": [EVIL], "host_version": EVIL},
}
PATIENCE_MS = 120_000


@functools.cache
def document_of(name: str) -> dict:
    made = fake_statistics.document(**DOCUMENTS[name])
    if name == "evil":
        made["ranks"][0]["fallbacks"] = {EVIL: 1}
        made["ranks"][0]["time"]["calls"][0]["call"] = EVIL
    return made


class Pages:
    """A browser, and pages of documents, which are made when they are first opened."""

    def __init__(self, browser, zerohop: str, folder: Path, shots: Path | None) -> None:
        self.browser, self.zerohop, self.folder, self.shots = browser, zerohop, folder, shots

    def run(self, *words: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        made = subprocess.run([self.zerohop, *words], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PATH": path}, check=False)  # fmt: skip
        assert made.returncode == 0, f"zerohop {words}: exit code {made.returncode}: {made.stderr}"
        return made.stdout

    def make(self, name: str) -> Path:
        page = self.folder / f"{name}.html"
        if page.exists():
            return page
        for document in ("usual", "other") if name == "compare" else (name,):
            (self.folder / f"{document}.json").write_text(json.dumps(document_of(document)))
        words = ("compare", "usual.json", "other.json") if name == "compare" else ("report", f"{name}.json")
        if name == "usual":
            call = {"ph": "X", "cat": "call", "name": "MPI_Send", "dur": 1}
            events = [call | {"pid": i % 16, "ts": i} for i in range(5000)]
            (self.folder / "t.trace").write_text(json.dumps({"traceEvents": events}))
            words += ("--profile", "gigabit-like", "--trace", "t.trace")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.run(*words, "-o", page.name)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        assert spent < MOST_WRITE_S, f"{name} was written in {spent:.1f} s"
        return page

    def open(self, name: str, width: int = 1400, scheme: str = "light"):
        """The page, and what it said or asked for that it should not."""
        for old in self.browser.contexts:
            old.close()
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(PATIENCE_MS)
        wrong: list[str] = []
        page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
        page.goto(self.make(name).as_uri())
        page.wait_for_selector("body[data-ready=yes]")
        told = self.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        spent = max(p["cpuTime"] for p in told if p["type"] == "renderer")
        assert spent < MOST_OPEN_S, f"{name} was ready after {spent:.1f} s"
        return page, wrong

    def shoot(self, page, name: str) -> None:
        if self.shots:
            page.screenshot(path=self.shots / f"{name}.png", full_page=True)


def values(page, section: str, table: int, column: int) -> list[float]:
    """The numbers of a column, from a page's cells."""
    cells = f"#{section} table >> nth={table} >> tbody td:nth-child({column})"
    return [float(v) for v in page.locator(cells).evaluate_all("(cells) => cells.map((c) => c.dataset.v)")]


def check_opens(pages: Pages, name: str) -> None:
    for scheme in ("light", "dark"):
        page, wrong = pages.open(name, WIDTHS[0], scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            scrolls = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert scrolls <= 0, f"{width} px: scrolls {scrolls} px sideways"
            pages.shoot(page, f"{name}-{width}-{scheme}")
        assert not wrong, wrong


def check_numbers(pages: Pages) -> None:
    page, _ = pages.open("usual")
    ranks = document_of("usual")["ranks"]
    sent = [row for r in ranks for rows in r["sent"]["by_path"].values() for row in rows]
    assert sum(values(page, "ways", 0, 4)) == sum(row["bytes"] for row in sent)
    sizes = [row["messages"] for r in ranks for row in r["sent"]["by_size"]]
    assert sum(values(page, "ways", 1, 2)) == sum(sizes)
    seconds = sum(c["seconds"] for r in ranks for c in r["time"]["calls"])
    assert abs(sum(values(page, "time", 0, 3)) - seconds) < 1e-9 * seconds
    assert abs(sum(values(page, "waits", 0, 3)) - seconds) < 1e-9 * seconds, "waiting and moving are all of MPI"
    calls = sum(c["calls"] for r in ranks for c in r["calls"])
    assert sum(values(page, "collectives", 0, 4)) == calls
    said = json.loads(pages.run("report", "usual.json", "--json"))
    shown = page.locator("#lines li").all_inner_texts()
    assert shown == [line["text"].replace("`", "") for line in said["lines"]]
    drawn = page.evaluate("document.querySelector('.plot.matrix').data[0].z.flat().filter((v) => v !== null).length")
    assert drawn == sum(len(r["peers"]) for r in ranks), "a cell for each pair"
    drawn = page.evaluate("document.querySelector('.plot.timeline').data[0].y.length")
    assert drawn == 3000, "the latest calls of the timeline"


def check_toggles(pages: Pages) -> None:
    page, wrong = pages.open("usual")
    plot = "document.querySelector('.plot.matrix').data[0]"
    peers = [p for r in document_of("usual")["ranks"] for p in r["peers"]]
    for choice in ("messages", "bytes"):
        page.locator("#matrix .choice button", has_text=choice).click()
        most = page.evaluate(f"Math.max(...{plot}.z.flat().filter((v) => v !== null))")
        expected = math.log(max(p[choice] for p in peers), 2 if choice == "bytes" else 10)
        assert abs(most - expected) < 1e-9 * expected, choice
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator(".theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    colour = page.evaluate("document.querySelector('.plot').layout.font.color")
    assert colour == page.evaluate("value('--text')"), "pictures follow the theme"
    assert not wrong, wrong


def check_axes(pages: Pages) -> None:
    """Bytes in the units of the tables, whole messages, no size left out; what is nearly equal has one colour."""
    page, _ = pages.open("usual")
    told = "[...document.querySelectorAll('[data-picture={}] .{} text')].map((t) => t.textContent)"
    heights = page.evaluate(told.format("ways", "ytick"))
    assert len(heights) > 2 and all(t.endswith((" GiB", " B")) for t in heights), heights
    sizes = page.evaluate("document.querySelector('[data-picture=ways] .plot').data[0].x")
    assert page.evaluate(told.format("ways", "xtick"))[-1] == sizes[-1], "the largest size has its name"
    assert sizes[sizes.index("<1M") + 1] == "<2M", sizes
    assert page.evaluate("document.querySelector('.plot.matrix').data[0].zmax - "
                         "document.querySelector('.plot.matrix').data[0].zmin") >= 1  # fmt: skip


def check_keyboard(pages: Pages) -> None:
    page, _ = pages.open("usual")
    page.keyboard.press("Tab")
    seen = []
    for _ in range(200):
        found = page.evaluate("[document.activeElement.tagName, document.activeElement.textContent.trim().slice(0, 9),"
                              " getComputedStyle(document.activeElement).outlineStyle]")  # fmt: skip
        if found[0] == "BODY":
            break
        seen.append(found)
        page.keyboard.press("Tab")
    assert {"A", "BUTTON", "SUMMARY", "DIV"} <= {tag for tag, *_ in seen}, "links, buttons, details, tables"
    assert all(outline != "none" for *_, outline in seen), "what has the focus is seen"
    assert {"bytes", "messages"} <= {text for tag, text, _ in seen if tag == "BUTTON"}
    page.locator("#ways th button", has_text="bytes").first.focus()
    page.keyboard.press("Enter")
    sizes = values(page, "ways", 0, 4)
    assert sizes == sorted(sizes, reverse=True), "a table is sorted by its head"


def check_saved_pictures(pages: Pages) -> None:
    page, wrong = pages.open("usual")
    figures = page.locator("figure").all()
    for n, figure in enumerate(figures):
        for kind in ("svg", "png"):
            with page.expect_download() as told:
                figure.locator(".choice button", has_text=kind.upper()).click()
            told.value.save_as(pages.folder / f"{n}.{kind}")
        assert_saved(pages.folder / f"{n}.svg", pages.folder / f"{n}.png", figure.locator("figcaption").inner_text())
    assert len(figures) >= 6 and not wrong, wrong


def assert_saved(vector: Path, raster: Path, title: str) -> None:
    """Marks, and the title: a text of the SVG, in the PNG the letters in the middle above."""
    from PIL import Image

    svg, name = ElementTree.parse(vector).getroot(), "{http://www.w3.org/2000/svg}".__add__
    texts = ["".join(e.itertext()) for e in svg.iter(name("text"))]
    assert svg.tag == name("svg") and any(text.startswith(title) for text in texts), f"{title} is not among {texts}"
    assert any(e.get("class") == "point" or e.tag == name("image") for e in svg.iter()), "an SVG without marks"
    picture = Image.open(raster).convert("RGB")
    assert picture.size == tuple(2 * int(svg.get(side)) for side in ("width", "height"))
    assert any(max(c) - min(c) > 60 for _, c in picture.getcolors(1 << 24)), "a PNG without colours"
    above = picture.crop((picture.width // 4, 0, 3 * picture.width // 4, 100)).convert("L")
    letters = above.point(lambda v: 255 * (v < 128)).getbbox()
    assert letters and letters[2] - letters[0] > 6 * len(title[:20]), f"{title} is not in the PNG: {letters}"


def check_large(pages: Pages) -> None:
    assert pages.make("large").stat().st_size < MOST_BYTES
    page, wrong = pages.open("large")
    plot = page.locator(".plot.matrix")
    box = plot.bounding_box()
    plot.hover(position={"x": box["width"] * 0.4, "y": box["height"] * 0.4})
    page.locator("#matrix .pointed", has_text="messages").wait_for()
    assert page.evaluate("document.querySelector('.plot.matrix').layout.shapes.length") == 2 * 15, "borders of 16 nodes"
    assert not wrong, wrong


def check_single_ranks_of_many(pages: Pages) -> None:
    """Cells can be told apart and labels do not touch; two nodes, chosen or clicked at, are shown rank by rank."""
    inside, ranks = range(3 * 64, 4 * 64), document_of("sparse")["ranks"]
    pairs = sum(p["rank"] in inside for r in inside for p in ranks[r]["peers"])
    shown = "(({z}) => [z.length, z[0].length, z.flat().filter((v) => v !== null).length])"
    shown += "(document.querySelector('.plot.matrix').data[0])"
    for width in LARGE_WIDTHS:
        page, wrong = pages.open("sparse", width)
        plot, area = page.locator(".plot.matrix"), page.locator(".plot.matrix .nsewdrag")
        box, (rows, columns, _) = area.bounding_box(), page.evaluate(shown)
        assert box["width"] >= columns == rows == 256, f"{width} px: less than a pixel for each of {columns} cells"
        labels = sorted((t.bounding_box() for t in plot.locator(".ytick text").all()), key=lambda b: b["y"])
        assert len(labels) >= 4 and all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(labels)), labels
        corner = {"x": box["width"] * 0.01, "y": box["height"] * 0.01}
        area.hover(position=corner)
        page.locator("#matrix .pointed", has_text="messages").wait_for()
        area.click(position=corner)
        page.wait_for_function("document.querySelector('#matrix select[name=to]').value === '0'")
        assert page.evaluate(shown)[:2] == [64, 64], "the two nodes"
        for way in ("from", "to"):
            page.locator(f"#matrix select[name={way}]").select_option("3")
        assert page.evaluate(shown) == [64, 64, pairs] and not wrong, wrong


def check_hostile_texts(pages: Pages) -> None:
    page, wrong = pages.open("evil")
    assert page.title() != "taken" and page.locator("main b").count() == 0
    assert not wrong, wrong


def checks() -> dict:
    names = ("usual", "large", "one", "none", "killed", "compare")
    found = {f"{name} opens": lambda pages, name=name: check_opens(pages, name) for name in names}
    return found | {name: f for name, f in globals().items() if name.startswith("check_") and f is not check_opens}


def main() -> int:
    parser = argparse.ArgumentParser(description="Pages of reports in a browser.")
    parser.add_argument("zerohop", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--shots", type=Path, help="leave pictures of the pages in this folder")
    parser.add_argument("--only", default="", help="checks whose name has this")
    arguments = parser.parse_args()
    wanted = {name: check for name, check in checks().items() if arguments.only in name}
    if os.environ.get("ZH_WITHOUT_BROWSER") == "1":
        print(f"0 passed, 0 failed, {len(wanted)} skipped")
        return 0
    from playwright.sync_api import sync_playwright  # a machine without it fails here

    chromium = shutil.which("chromium")
    assert chromium, "no chromium: dev/setup installs it; ZH_WITHOUT_BROWSER=1 leaves these tests out"
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    failed = 0
    with sync_playwright() as p, tempfile.TemporaryDirectory() as folder:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = Pages(browser, arguments.zerohop, Path(folder), arguments.shots)
        for name, check in wanted.items():
            try:
                check(pages)
            except Exception:  # each check is told, whatever broke it
                failed += 1
                print(f"FAILED: {name}\n{traceback.format_exc(limit=-3)}")
    print(f"{len(wanted) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
