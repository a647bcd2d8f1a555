"""`cascadia profile quality`: measure a quality table with your own prompts, models and judge."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import number, positive, with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.profile.quality.journal import Journal
    from cascadia.profile.quality.run import Finished, Job


@click.command()
@click.option(
    "--prompts",
    "prompts_file",
    required=True,
    type=click.Path(path_type=Path),
    help="File of prompts, JSON lines, CSV or Parquet; it has `prompt_id`, `prompt` or `messages`, and "
    "for checks `reference` and `check`.",
)
@click.option(
    "--stages",
    "--stage",
    "stages",
    required=True,
    multiple=True,
    metavar="SPEC|NAME=URL#MODEL",
    help="Path of a spec, or the stages, from small to large; a spec's stages get addresses by --endpoint.",
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="NAME=URL[#MODEL]",
    help="Address at which a stage of the spec is served; repeat it for each stage. Default: none.",
)
@click.option(
    "--judge",
    "judges",
    required=True,
    multiple=True,
    metavar="URL#MODEL|CHECK",
    help="Judge of the answers: an LLM judge, or a check (exact, regex, json-schema) against the "
    "references. With one of each, the judge gives the score and the check the quality.",
)
@click.option(
    "--out",
    default="quality.parquet",
    show_default=True,
    type=Written(),
    help="File to write the table to: .parquet, .csv or .jsonl.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Number of tokens that an answer may have.",
)
@click.option(
    "--temperature",
    type=number,
    default=0.0,
    show_default=True,
    help="Temperature that answers are sampled with; 0 is greedy.",
)
@click.option(
    "--judge-reads",
    "reads_tokens",
    type=click.IntRange(64),
    default=8192,
    show_default=True,
    help="Tokens of question and answer that the judge is shown; longer ones lose their middle.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Number of requests under way at each engine.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=positive,
    default=300.0,
    show_default=True,
    help="Seconds that an answer may take.",
)
@click.option(
    "--api-key-env",
    "key_variables",
    multiple=True,
    metavar="[NAME=]VARIABLE",
    help="Environment variable with the API key of stage NAME, of `judge`, or of all; repeat it for "
    "more. Default: none.",
)
@click.option("--restart", is_flag=True, help="Throw away what an earlier run has done.")
@click.option(
    "--keep-answers",
    type=Written(),
    help="File (.jsonl) to write the answers' texts to. Default: none are kept.",
)
@with_output
@ends_at_once
def quality(
    prompts_file: Path,
    stages: tuple[str, ...],
    endpoints: tuple[str, ...],
    judges: tuple[str, ...],
    out: Path,
    max_tokens: int,
    temperature: float,
    reads_tokens: int,
    concurrency: int,
    timeout_s: float,
    key_variables: tuple[str, ...],
    restart: bool,
    keep_answers: Path | None,
    output: Output,
) -> None:
    """Run prompts through all stages and a judge, and write the quality table.

    Every finished answer is kept at once in a journal beside the table: the same command goes on after a crash.
    """
    from cascadia.cli.profile.quality_outputs import report
    from cascadia.cli.profile.quality_stages import judge_of, stage_targets, with_keys
    from cascadia.clients.engines.served_models import Target, settled
    from cascadia.planner.problem.quality_format import kind_of
    from cascadia.profile.quality.journal import journal_path, open_journal
    from cascadia.profile.quality.prompts import read_prompts
    from cascadia.profile.quality.run import Job

    kind_of(out)
    if not 0 <= temperature <= 2:
        raise BadInput("--temperature", f"is {temperature:g}", "write a number from 0 to 2")
    judge, check = judge_of(judges)
    given = stage_targets(stages, endpoints)
    targets = with_keys((*given, Target(judge, ())) if judge else given, key_variables)
    with output.progress(f"reading {prompts_file.name}"):
        prompts = read_prompts(prompts_file, check, all_checked=judge is None)
    with output.progress("asking engines for their models"):
        found = asyncio.run(settled(targets, only_unnamed=True))
    job = Job(
        prompts=prompts,
        stages=found[: len(given)],
        judge=found[-1] if judge else None,
        max_tokens=max_tokens,
        temperature=temperature,
        reads_tokens=reads_tokens,
        concurrency=concurrency,
        timeout_s=timeout_s,
    )
    with open_journal(journal_path(out), job.inputs(), restart=restart) as journal:
        if earlier := len(job.done(journal.done)):
            output.note(f"going on: {earlier:,} of {job.answers:,} answers are there from an earlier run")
        if earlier < job.answers:
            with output.progress("asking engines for their models"):
                asyncio.run(settled(targets))
        failures = _work(job, journal, keep_answers, output)
        report(job, journal.done, failures, out, output)


def _work(job: "Job", journal: "Journal", keep: Path | None, output: Output) -> "list[Finished]":
    """Asks for all that the journal lacks, and returns what failed. Interrupted, it says how to go on."""
    from cascadia.profile.quality.answers import keep_answers
    from cascadia.profile.quality.journal import Failed
    from cascadia.profile.quality.run import run

    failures: list[Finished] = []
    left = Counter(stage.name for stage in job.stages for _ in job.prompts)
    left.subtract(stage for _, stage in job.done(journal.done))

    with ExitStack() as stack:
        answers = stack.enter_context(keep_answers(keep, journal.done)) if keep else None
        step = stack.enter_context(output.progress("asking"))

        def on_finished(finished: "Finished") -> None:
            outcome = finished.outcome
            if isinstance(outcome, Failed):
                failures.append(finished)
            elif answers is not None:
                answers.add(outcome, finished.answer)
            journal.add(outcome)
            left[outcome.stage] -= 1
            total = len(job.prompts)
            text = ", ".join(f"{name} {total - rest}/{total}" for name, rest in left.items())
            failed = f", {len(failures)} failed" if failures else ""
            step(1 - left.total() / job.answers, f"{text}{failed}")

        try:
            asyncio.run(run(job, journal.done, on_finished))
        except KeyboardInterrupt:
            done = len(job.done(journal.done))
            output.note(f"{done:,} of {job.answers:,} answers are kept; the same command goes on from there")
            raise
    return failures
