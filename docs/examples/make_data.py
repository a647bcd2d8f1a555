"""Writes what the examples' specs read: made-up traffic and quality tables, always the same.

`python docs/examples/make_data.py` writes them anew. Yours come from your router's log, or from `cascadia trace` and
`cascadia profile quality`.
"""

from dataclasses import replace
from pathlib import Path

from cascadia.demo.plan_example_quality import example_quality
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.quality_file import write_quality
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.generate.samples import chat_trace
from cascadia_traces.trace import Trace

REQUESTS, QUESTIONS = 500, 200
HERE = Path(__file__).parent


def traffic() -> Trace:
    """The first `REQUESTS` of the bundled example's, from 0."""
    whole = chat_trace()
    return Trace(
        whole.arrival_s[:REQUESTS].round(2),
        whole.input_tokens[:REQUESTS],
        whole.output_tokens[:REQUESTS],
    )


def two_stages(table: QualityTable) -> QualityTable:
    """Of the small and the medium model, and much shorter: a laptop's questions."""
    return replace(
        table,
        stages=("small", "large"),
        score=table.score[:2],
        quality=table.quality[:2],
        input_tokens=(table.input_tokens[:2] / 8).round().clip(8),
        output_tokens=(table.output_tokens[:2] / 8).round().clip(4),
    )


def write(folder: Path) -> None:
    table = example_quality(QUESTIONS)
    write_trace(traffic(), folder / "chat.csv")
    write_quality(table, folder / "quality.csv")
    write_quality(two_stages(table), folder / "laptop-quality.csv")


if __name__ == "__main__":
    write(HERE)
