"""The measured sections of docs/benchmarks/comparison.md."""

from collections.abc import Sequence

from tests.benchmarks import bench_compare_summary as summary
from tests.benchmarks.bench_compare_grid import CASCADES
from tests.benchmarks.bench_compare_run import Result
from tests.benchmarks.report_table import figure, markdown


def sections(results: Sequence[Result]) -> dict[str, str]:
    parts = {"cascade": 0, "trace": 1, "load": 2}
    return {
        "baselines": summary.baselines(results),
        "groups": "\n\n".join(summary.by_group(results, part) for part in parts.values()),
        "bars": bars(results),
        "ablations": summary.ablations(results),
        "faults": summary.faults_table(results),
        "promise": f"Of {len(results)} cells: {summary.missed_bars(results)}.",
        "grid": grid(),
        "cells": cells(results),
    }


def bars(results: Sequence[Result]) -> str:
    """By cascade and bar."""
    groups = []
    for cascade in CASCADES:
        mine = [r for r in results if r.cell.startswith(cascade.name)]
        groups.append(f"{cascade.name}:\n\n{summary.by_group(mine, 3)}")
    return "\n\n".join(groups)


def grid() -> str:
    rows = [
        (
            cascade.name,
            cascade.models,
            "GPT-4o, external" if cascade.judge else "Llama-3.1-8B, on GPUs",
            ", ".join(f"{bar:g}" for bar in cascade.bars),
            *(", ".join(f"{rate:g}" for rate in rates) for rates in cascade.rates_rps.values()),
        )
        for cascade in CASCADES
    ]
    traces = [f"{trace} req/s" for trace in CASCADES[0].rates_rps]
    return markdown(("name", "models", "judge", "bars", *traces), rows, text_columns=6)


def cells(results: Sequence[Result]) -> str:
    """One table a cascade and trace; a row a cell and system."""
    tables = []
    for group in dict.fromkeys(tuple(r.cell.split(" | ")[:2]) for r in results):
        mine = [r for r in results if tuple(r.cell.split(" | ")[:2]) == group]
        rows = [row for r in mine for row in _rows(r)]
        columns = (
            "load",
            "bar",
            "system",
            "SLO scale",
            "p95",
            "max req/s",
            "$/1k",
            "quality",
            "≥",
            "GPUs",
            "",
        )
        base = f"SLO scale 1 is {mine[0].slo_base_s:.2f} s"
        tables.append(f"### {group[0]}, {group[1]}\n\n{base}.\n\n{markdown(columns, rows, text_columns=3)}")
    return "\n\n".join(tables)


def _rows(result: Result) -> list[tuple[str, ...]]:
    *_, load, bar = result.cell.split(" | ")
    rows = []
    for name, o in result.systems.items():
        text = ", ".join(part for part in (o["deployment"], o["why"]) if part)
        latency = result.figure(name, "latency_s")
        rows.append(
            (
                f"{load} {result.rate_rps:.3g}/s",
                bar,
                f"**{name}**" if name == "cascadia" else name,
                figure(result.figure(name, "slo_scale")),
                f"{latency:.1f} s" if latency == latency else "–",
                figure(result.figure(name, "max_rate_rps")),
                figure(result.figure(name, "usd_per_1k_requests")),
                *(f"{q:.1f}" if q == q else "–" for q in _quality(result, name)),
                str(o["gpus"] or "–"),
                text,
            )
        )
    return rows


def _quality(result: Result, name: str) -> tuple[float, float]:
    return result.figure(name, "quality_mean"), result.figure(name, "quality_lower")
