"""Markdown tables of measured figures."""

from collections.abc import Sequence
from math import isfinite


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """The first `text_columns` columns are set left, the others right."""
    rule = ["---" if at < text_columns else "--:" for at in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def figure(value: float, digits: int = 3) -> str:
    """Three significant figures, a dash where there is none."""
    if not isfinite(value):
        return "–"
    if value != 0 and abs(value) < 10 ** (digits - 1):
        return f"{value:.{digits}g}"
    return f"{value:,.0f}"
