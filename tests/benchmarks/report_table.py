"""Pages of which some sections are measured and the rest is written by hand."""

from pathlib import Path

from cascadia.report.charts.style import CHART_CSS
from cascadia.report.markdown import figure as figure
from cascadia.report.markdown import markdown as markdown


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
