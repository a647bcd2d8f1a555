"""Markdown tables, and pages of which some sections are measured and the rest is written by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cascadia.report.charts.style import CHART_CSS


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """The first `text_columns` columns are set left, the others right."""
    rule = ["---" if at < text_columns else "--:" for at in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def figure(value: float, digits: int = 3) -> str:
    """Three significant figures, a dash where there is none."""
    if not np.isfinite(value):
        return "–"
    if value != 0 and abs(value) < 10 ** (digits - 1):
        return f"{value:.{digits}g}"
    return f"{value:,.0f}"


def replaced(page: str, section: str, body: str) -> str:
    """`page` with `body` between the marks of `section`."""
    begin, end = f"<!-- measured: {section} -->", "<!-- end -->"
    before, found, after = page.partition(begin)
    _, closed, rest = after.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no section between {begin} and {end}")
    return f"{before}{begin}\n{body}\n{end}{rest}"


def update(path: Path, sections: dict[str, str]) -> None:
    """Writes every section of the page in `path` anew."""
    page = path.read_text()
    for name, body in sections.items():
        page = replaced(page, name, body)
    path.write_text(page)


def alone(svg: str) -> str:
    """A chart as a file of its own."""
    svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return svg.replace(">", f"><style>{CHART_CSS}</style>", 1)
