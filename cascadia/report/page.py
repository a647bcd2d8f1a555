"""A self-contained HTML page from sections of text, tables and charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cascadia.report.charts.style import CHART_CSS


@dataclass(frozen=True, slots=True)
class Section:
    """`body` is markup (charts); `lead` and the cells of `rows` are plain text and are escaped here."""

    heading: str
    body: str = ""
    lead: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def page(title: str, sections: Sequence[Section]) -> str:
    """One file that needs nothing else: no script, and no font or picture from another host."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{CHART_CSS}{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    lead = f"<p>{escape(section.lead)}</p>" if section.lead else ""
    charts = f'<div class="charts">{section.body}</div>' if section.body else ""
    return f"<section>\n<h2>{escape(section.heading)}</h2>\n{lead}{_table(section)}{charts}\n</section>"


def _table(section: Section) -> str:
    if not section.rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in section.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(c)}</td>" for c in row[1:])}</tr>'
        for row in section.rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


PAGE_CSS = """\
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
 font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1104px;margin:0 auto;padding:40px 32px 64px}
h1{font-size:26px;line-height:1.25;letter-spacing:-.01em;margin:0 0 8px;text-wrap:balance}
h2{font-size:18px;line-height:1.3;margin:0 0 6px}
section{margin-top:44px}
p{max-width:72ch;margin:0 0 12px;text-wrap:pretty}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:32px 40px;
 margin-top:18px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums;margin-top:12px}
th,td{padding:7px 14px 7px 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap;
 vertical-align:top}
th:first-child,td.t,th.t{text-align:left}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--muted);font-weight:500;font-size:12.5px;border-bottom-color:var(--faint);
 white-space:normal;vertical-align:bottom}
tbody th{font-weight:600}
a{color:var(--t0)}
:focus-visible{outline:2px solid var(--c0);outline-offset:3px;border-radius:3px}
@page{size:A4;margin:15mm 14mm}
@media print{
 body{font-size:10.5pt;-webkit-print-color-adjust:exact;print-color-adjust:exact}
 main{max-width:none;padding:0}
 section{margin-top:22pt}
 h2,thead{break-after:avoid}
 table,tr,.charts>*{break-inside:avoid}
 .charts{grid-template-columns:1fr 1fr;gap:16pt 18pt}
 .wide{overflow:visible}
 table{font-size:9pt}
}
"""
