"""All results as one page that refers to nothing outside. Needs jinja2."""

from __future__ import annotations

from zerohop.reproduce import plots, show
from zerohop.reproduce.describe import PAPERS, Figure

WANTED = "--html needs jinja2: python3 -m pip install jinja2"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .6rem 0; font-size: 13px; }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: right; }
td:first-child, th:first-child, .words td { text-align: left; }
.holds { color: #1a7f37; } .does { color: #b42318; } .not { color: #8a6d00; }
figure { margin: .6rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
code { background: #f4f4f4; padding: .1rem .25rem; font-size: 12px; overflow-wrap: anywhere; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The papers' figures, reproduced</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{{ style }}</style></head><body>
<h1>The papers' figures, reproduced</h1>
<p>{{ about }}</p>
<h2>Paper, here, holds</h2>
<table class="words"><tr>{% for cell in closing[0] %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in closing[1:] %}<tr>{% for cell in row %}<td
{%- if loop.last %} class="{{ cell.split(' ')[0].rstrip(',') }}"{% endif %}>
{%- if loop.first %}<a href="#{{ cell }}">{{ cell }}</a>{% else %}{{ cell }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}</table>
{% for paper, figures in papers %}<h2>{{ paper }}</h2>
{% for f in figures %}<section id="{{ f.id }}"><h3>{{ f.id }}: {{ f.number }}</h3>
<p>{{ f.first }}</p><p>{{ f.shows }}. The paper: {{ f.headline }}.</p>
{% if f.svg %}<figure>{{ f.svg }}</figure>{% endif %}
{% for t in f.tables %}<table><caption>{{ t.title }}</caption>
<tr>{% for c in t.rows[0] %}<th>{{ c }}</th>{% endfor %}</tr>
{% for row in t.rows[1:] %}<tr>{% for c in row %}<td>{{ c }}</td>{% endfor %}</tr>{% endfor %}</table>{% endfor %}
{% for note in f.notes %}<p>– {{ note }}</p>{% endfor %}
{% for found in f.findings %}<p class="{{ found.state.split(' ')[0] }}">{{ found.text }}</p>{% endfor %}
{% for c in f.commands %}<p><code>{{ c }}</code></p>{% endfor %}</section>
{% endfor %}{% endfor %}</body></html>
"""


def jinja():
    """The module; None where it is not installed."""
    try:
        import jinja2
    except ImportError:
        return None
    return jinja2


def section(figure: Figure, result: dict, markup) -> dict:
    svg = plots.svg_of(result)
    return {
        "id": figure.id, "number": figure.number, "shows": figure.shows, "headline": figure.headline,
        "first": show.first_line(figure, result), "svg": markup(plots.inline(svg, figure.id)) if svg else "",
        "tables": [{"title": p["title"], "rows": show.panel_rows(p)} for p in result["panels"]],
        "notes": result["notes"], "findings": [f | {"text": show.finding_text(f)} for f in result["findings"]],
        "commands": [show.command_text(c) for c in result["commands"]],
    }  # fmt: skip


def page(figures: list[Figure], results: dict[str, dict], about: str) -> str:
    jinja2 = jinja()
    from markupsafe import Markup  # comes with jinja2

    papers = []
    for key, name in PAPERS.items():
        mine = [section(f, results[f.id], Markup) for f in figures if f.paper == key and f.id in results]
        if mine:
            papers.append((name, mine))
    template = jinja2.Environment(autoescape=True).from_string(PAGE)
    return template.render(style=Markup(STYLE), about=about, closing=show.closing_rows(figures, results), papers=papers)
