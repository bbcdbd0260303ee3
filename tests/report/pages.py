#!/usr/bin/env python3
"""The pages of `zerohop report` and `zerohop compare`, as a browser shows them.

    build/env/plots/bin/python tests/report/pages.py build/bin/zerohop [--shots FOLDER]

Each page is opened from its file in headless Chromium: no error, no request, the numbers of the file, buttons by mouse
and keyboard, both themes, no sideways scrolling at 360 px. Fails where the browser is missing, unless
ZH_WITHOUT_BROWSER is 1. --shots leaves pictures of the pages. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "tools_cli"))
import fake_statistics  # noqa: E402

WIDTHS = (360, 800, 1400)
EVIL = "</script><script>document.title='taken'</script><b>"
MOST_BYTES = 12 << 20  # of a page of 1,024 ranks
# Arguments of fake_statistics.document(), by the name of the page.
DOCUMENTS = {
    "usual": {"ranks": 16, "per_node": 8, "pattern": "grid"},
    "large": {"ranks": 1024, "per_node": 64, "pattern": "all"},
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
            words += ("--trace", "t.trace")
        self.run(*words, "-o", page.name)
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


def check_large(pages: Pages) -> None:
    assert pages.make("large").stat().st_size < MOST_BYTES
    page, wrong = pages.open("large")
    plot = page.locator(".plot.matrix")
    box = plot.bounding_box()
    plot.hover(position={"x": box["width"] * 0.4, "y": box["height"] * 0.4})
    page.locator("#matrix .pointed", has_text="messages").wait_for()
    assert page.evaluate("document.querySelector('.plot.matrix').layout.shapes.length") >= 2 * 15, "borders of 16 nodes"
    assert not wrong, wrong


def check_hostile_texts(pages: Pages) -> None:
    page, wrong = pages.open("evil")
    assert page.title() != "taken" and page.locator("main b").count() == 0
    assert not wrong, wrong


def checks() -> dict:
    names = ("usual", "large", "one", "none", "killed", "compare")
    found = {f"{name} opens": lambda pages, name=name: check_opens(pages, name) for name in names}
    return found | {
        f.__name__: f for f in (check_numbers, check_toggles, check_keyboard, check_large, check_hostile_texts)
    }


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
