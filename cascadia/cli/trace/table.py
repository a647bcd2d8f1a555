"""The figures of a trace as tables for the terminal."""

from typing import TYPE_CHECKING

from cascadia.report.numbers import figures, percent, seconds

if TYPE_CHECKING:
    from rich.console import Group

    from cascadia_traces.statistics.stats import TraceSummary


def facts(summary: "TraceSummary") -> list[tuple[str, str]]:
    """Name and value of every figure but the lengths'; those that the trace does not have are left out."""
    known = [
        ("requests", f"{summary.requests:,}"),
        ("duration", seconds(summary.duration_s)),
        ("mean rate", f"{figures(summary.rate_rps)} requests/s"),
    ]
    if summary.gap_cv is not None:
        known.append(("CV of gaps (Poisson: 1)", figures(summary.gap_cv)))
    for window in summary.windows:
        dispersion = figures(window.index_of_dispersion)
        peak = figures(window.peak_to_mean)
        known.append(
            (f"counts per {window.window_s:g} s", f"index of dispersion {dispersion}, peak {peak} x mean")
        )
    if summary.pearson_log is not None:
        known.append(("correlation of log lengths", figures(summary.pearson_log, 2)))
    if summary.spearman is not None:
        known.append(("rank correlation of lengths", figures(summary.spearman, 2)))
    if summary.prefix_share is not None:
        known.append(("input tokens seen before", percent(summary.prefix_share, 1)))
    return known


def length_columns() -> tuple[str, ...]:
    return ("tokens", "mean", "CV", "min", "p5", "p50", "p95", "p99", "max")


def length_rows(summary: "TraceSummary") -> list[tuple[str, ...]]:
    """One row for the input, one for the output."""
    rows = []
    for name, lengths in (("input", summary.input_tokens), ("output", summary.output_tokens)):
        quantiles = [f"{lengths.quantile(share):,}" for share in (0.05, 0.5, 0.95, 0.99)]
        spread = (figures(lengths.mean), figures(lengths.cv), f"{lengths.smallest:,}")
        rows.append((name, *spread, *quantiles, f"{lengths.largest:,}"))
    return rows


def summary_tables(file: str, kind: str, summary: "TraceSummary") -> "Group":
    """Both tables, for rich to print."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    traffic = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts(summary):
        traffic.add_row(Text(name, style="dim"), Text(value))
    lengths = Table(box=None, pad_edge=False, header_style="dim")
    for column in length_columns():
        lengths.add_column(column, justify="left" if column == "tokens" else "right")
    for row in length_rows(summary):
        lengths.add_row(*row)
    return Group(Text(f"{file} ({kind})", style="bold"), traffic, Text(""), lengths)
