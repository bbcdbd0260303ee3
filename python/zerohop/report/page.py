"""A report as one page, which refers to nothing outside. Needs plotly for its script, and jinja2."""

from __future__ import annotations

import json
import re
from pathlib import Path

from zerohop.report.text import shown

WANTED = "a page needs plotly and jinja2: pip install plotly jinja2, or apt install python3-plotly python3-jinja2"


def missing() -> bool:
    try:
        import jinja2  # noqa: F401
        import plotly.offline  # noqa: F401
    except ImportError:
        return True
    return False


def may_overwrite(path: Path) -> bool:
    """Whether nothing of the user's is lost by a page there; as src/os/own_file.cpp tells a page."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        head = file.read(4096)
    return head.startswith(b"<!doctype html>") and b'<meta name="generator" content="zerohop' in head


def for_script(data: object) -> str:
    """JSON that no text in it can end early."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def marked(text: str):
    """Words between backticks are code."""
    import markupsafe  # comes with jinja2

    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def page(title: str, about: str, lead: tuple[str, str], lines: list[str], sections: list[dict]) -> str:
    import jinja2
    import plotly.offline

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"shown": shown, "marked": marked}
    pictures = {p["name"]: p for s in sections for p in s["pictures"]}
    return environment.get_template("page.html").render(
        title=title, about=about, lead=lead, lines=lines, sections=sections, data=for_script(pictures),
        plotly=plotly.offline.get_plotlyjs(),
    )  # fmt: skip
