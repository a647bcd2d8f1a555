"""Outputs of `cascadia profile quality`: the table, how good each stage is, and what is amiss."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.cli.shared.output import Output
from cascadia.domain.errors import CascadiaError
from cascadia.planner.problem.gate_skill import weak
from cascadia.profile.quality.journal import Done, Failed, journal_path
from cascadia.profile.quality.run import Finished, Job
from cascadia.profile.quality.summary import Mean, StageSummary, agreement_of, stage_summary
from cascadia.report.numbers import percent, plural

if TYPE_CHECKING:
    from rich.table import Table

    from cascadia.domain.quality import QualityTable

LEFT_OUT_MAX = 0.05
"""Share of the prompts that a table may lack because of failures; more of them might not fail by chance."""


def report(
    job: Job,
    done: Mapping[tuple[str, str], Done],
    failures: Sequence[Finished],
    out: Path,
    output: Output,
) -> None:
    """Writes the table and says what is in it. Raises `CascadiaError` where too many prompts failed for one."""
    from cascadia.planner.problem.quality_file import write_quality

    whole = [p.id for p in job.prompts if all((p.id, stage.name) in done for stage in job.stages)]
    left_out = len(job.prompts) - len(whole)
    for line in failure_lines(job, done, failures):
        output.note(f"note: {line}")
    if left_out > LEFT_OUT_MAX * len(job.prompts):
        raise CascadiaError(
            f"{left_out:,} of {len(job.prompts):,} prompts lack an answer or its score, more than "
            f"{percent(LEFT_OUT_MAX)}: no table was written. What is done is kept: once the cause is mended, "
            "the same command asks for the rest"
        )
    rows = [done[name, stage.name] for stage in job.stages for name in whole]
    write_quality(quality_table(job, whole, rows), out)
    summaries = stage_summaries(job, rows, failures)
    output.show(table(job, summaries))
    for line in remarks(job, summaries, left_out, rows):
        output.note(f"note: {line}")
    output.show(f"{out}: {len(rows):,} rows; name it in your spec, under quality: {{table: {out.name}}}")
    about = {"file": out, "journal": journal_path(out), "prompts": len(whole), "left_out": left_out}
    output.document(about | document(job, rows, summaries))


def stage_summaries(job: Job, rows: Sequence[Done], failures: Sequence[Finished]) -> list[StageSummary]:
    failed = {stage.name: Counter[str]() for stage in job.stages}
    for failure in failures:
        if isinstance(failure.outcome, Failed):
            failed[failure.outcome.stage][failure.outcome.kind] += 1
    return [
        stage_summary(
            stage.name,
            stage.model,
            [row for row in rows if row.stage == stage.name],
            failed[stage.name],
            judged=job.judge is not None,
        )
        for stage in job.stages
    ]


def document(job: Job, rows: Sequence[Done], summaries: Sequence[StageSummary]) -> dict[str, Any]:
    """`agreement` is over all stages' answers together."""
    checked = [row for row in rows if row.quality is not None]
    overall = agreement_of(checked) if job.judge and checked else None
    return {
        "rows": len(rows),
        "judge": None if job.judge is None else job.judge.model,
        "checks": sorted({prompt.check for prompt in job.prompts if prompt.check}),
        "stages": [_stage_document(summary) for summary in summaries],
        "agreement": None if overall is None else overall._asdict(),
    }


def quality_table(job: Job, whole: Sequence[str], rows: Sequence[Done]) -> "QualityTable":
    """`rows` by stage, then prompt. Where there is no reference, the score stands for the quality."""
    import numpy as np

    from cascadia.domain.quality import QualityTable, ScoredBy
    from cascadia_judge.llm.prompt import PROMPT_VERSION

    checks = ", ".join(sorted({prompt.check for prompt in job.prompts if prompt.check}))
    scored_by = ScoredBy("check", checks or None)
    if job.judge is not None:
        scored_by = ScoredBy("llm", job.judge.model, PROMPT_VERSION)
    shape = (len(job.stages), len(whole))

    def column(values: Iterator[float]) -> Any:
        return np.fromiter(values, dtype=np.float64).reshape(shape)

    return QualityTable(
        prompt_ids=tuple(whole),
        stages=tuple(stage.name for stage in job.stages),
        score=column(row.score for row in rows),
        quality=column(row.score if row.quality is None else row.quality for row in rows),
        input_tokens=column(float(row.input_tokens) for row in rows),
        output_tokens=column(float(row.output_tokens) for row in rows),
        scored_by=scored_by,
    )


def table(job: Job, summaries: Sequence[StageSummary]) -> "Table":
    from rich.table import Table

    judge = job.judge.model if job.judge else "by checks"
    shown = Table(
        title=f"{summaries[0].questions:,} prompts; score by {judge}" if job.judge else "scored by checks",
        title_justify="left",
    )
    for name in ("stage", "score", "quality", "AUC", "tokens in", "out", "failed"):
        shown.add_column(name, justify="left" if name == "stage" else "right")
    for stage in summaries:
        agreed = stage.agreement
        shown.add_row(
            stage.name,
            _mean(stage.score),
            "-" if stage.quality is None else _mean(stage.quality),
            "-" if agreed is None else f"{agreed.auc:.2f} ± {1.96 * agreed.standard_error:.2f}",
            f"{stage.input_tokens:,.0f}",
            f"{stage.output_tokens:,.0f}",
            f"{sum(stage.failed.values()):,}",
        )
    return shown


def failure_lines(
    job: Job, done: Mapping[tuple[str, str], Done], failures: Sequence[Finished]
) -> Iterator[str]:
    """Lines for each stage that failed anywhere: how often, and what it said first."""
    for stage in job.stages:
        own = [failure for failure in failures if failure.outcome.stage == stage.name]
        if not own:
            continue
        absent = sum((prompt.id, stage.name) not in done for prompt in job.prompts)
        given_up = f", and {absent - len(own):,} more were not asked" if absent > len(own) else ""
        yield f"{stage.name} failed on {plural(len(own), 'prompt')}{given_up}; the first: {own[0].why}"


def remarks(
    job: Job, summaries: Sequence[StageSummary], left_out: int, rows: Sequence[Done]
) -> Iterator[str]:
    """Remarks that a reader of the table should know."""
    if left_out:
        yield (
            f"the table leaves out {plural(left_out, 'prompt')} for want of an answer or its score; "
            "the same command tries again"
        )
    for stage in summaries:
        if stage.agreement is not None and (said := weak(stage.agreement)):
            yield f"the scores of stage {stage.name!r} {said}"
        if stage.cut:
            yield f"--max-tokens {job.max_tokens:,} cut {plural(stage.cut, 'answer')} of {stage.name}"
    unchecked = sum(row.quality is None for row in rows)
    if job.judge is None:
        yield "score and quality are one: a gate that knew the references; add --judge URL#MODEL for a real one"
    elif unchecked == len(rows):
        yield "quality is the judge's own score, for want of references: a plan will trust the judge"
    elif unchecked:
        yield f"quality is the judge's score for the {unchecked // len(summaries):,} prompts without a reference"
    if job.judge is not None and not all(row.expected for row in rows):
        yield "not all scores could be read from log-probabilities; the others are whole grades, 0 to 9 of 9"


def _mean(value: Mean) -> str:
    return f"{value.mean:.1f} ({value.low:.1f}-{value.high:.1f})"


def _stage_document(summary: StageSummary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "model": summary.model,
        "score": summary.score._asdict(),
        "quality": None if summary.quality is None else summary.quality._asdict(),
        "checked": summary.checked,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cut": summary.cut,
        "failed": dict(summary.failed),
        "agreement": None if summary.agreement is None else summary.agreement._asdict(),
    }
