"""The plots of a trace, as one HTML page."""

from pathlib import Path

from cascadia.cli.trace.table import facts, length_columns, length_rows
from cascadia.files.text import write_whole
from cascadia.report.charts import Bins, Series, histogram, line_chart, scatter
from cascadia.report.numbers import figures
from cascadia.report.page import Section, page
from cascadia_traces.statistics.histogram import LengthHistogram
from cascadia_traces.statistics.stats import TraceSummary


def write_plots(path: Path, name: str, summary: TraceSummary) -> None:
    write_whole(path, plots_page(name, summary))


def plots_page(name: str, summary: TraceSummary) -> str:
    """Rate over time, burstiness, the two length distributions and how they hang together."""
    traffic = _rate_chart(summary) + _burstiness_chart(summary)
    lengths = _length_chart("Input length", summary.input_tokens) + _length_chart(
        "Output length", summary.output_tokens
    )
    return page(
        f"Trace {name}",
        (
            Section("Traffic", body=traffic, columns=("figure", "value"), rows=tuple(facts(summary))),
            Section("Lengths", body=lengths, columns=length_columns(), rows=tuple(length_rows(summary))),
            Section("Input against output", body=_pairs_chart(summary)),
        ),
    )


def _rate_chart(summary: TraceSummary) -> str:
    middles_s, rates_rps = summary.rate.rates()
    return line_chart(
        [Series("rate", middles_s, rates_rps, steps=True)],
        title="Rate over time",
        x_label=f"seconds, in bins of {figures(summary.rate.bin_s)} s",
        y_label="requests/s",
        h_lines=((summary.rate_rps, "mean"),),
    )


def _burstiness_chart(summary: TraceSummary) -> str:
    if len(summary.windows) < 2:
        return ""
    return line_chart(
        [
            Series(
                "index of dispersion",
                [window.window_s for window in summary.windows],
                # A log scale has no zero; perfectly even arrivals have this index.
                [max(window.index_of_dispersion, 1e-3) for window in summary.windows],
            )
        ],
        title="Burstiness",
        x_label="window in seconds",
        y_label="variance of counts / their mean",
        log_x=True,
        log_y=True,
        markers=True,
        h_lines=((1.0, "Poisson"),),
    )


def _length_chart(title: str, lengths: LengthHistogram) -> str:
    edges, shares = lengths.density()
    return histogram(
        Bins(shares * len(lengths), edges),
        title=title,
        x_label="tokens",
        log_x=True,
        v_lines=((lengths.quantile(0.5), "median"), (lengths.quantile(0.95), "p95")),
    )


def _pairs_chart(summary: TraceSummary) -> str:
    inputs, outputs = zip(*summary.sample, strict=True)
    correlation = "" if summary.pearson_log is None else f", correlation {figures(summary.pearson_log, 2)}"
    return scatter(
        inputs,
        outputs,
        title=f"Lengths of {len(inputs):,} requests{correlation}",
        x_label="input tokens",
        y_label="output tokens",
        log_x=True,
        log_y=True,
    )
