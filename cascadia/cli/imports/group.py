"""`cascadia import`: a trace, prompts or a quality table out of what other programs wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.imports.options import with_lengths, with_source
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import Group, positive, with_output, with_own_seed
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.imports.records import Records


@click.group("import", cls=Group)
def import_() -> None:
    """Make a trace, prompts or a quality table of what other programs wrote.

    SOURCE is a file or a folder: LiteLLM spend logs, Langfuse exports, OpenAI logs, a vLLM server's log or benchmark,
    GuideLLM or AIPerf results, ShareGPT, a Hugging Face data set on disk, or any table.
    """


@import_.command()
@with_source
@with_lengths
@click.option(
    "--rate",
    "rate_rps",
    type=positive,
    metavar="RPS",
    help="Mean rate of drawn arrivals in requests/s; needed for a file without times. Default: such a "
    "file is refused.",
)
@with_own_seed
@with_output
@ends_at_once
def trace(
    out: Path,
    tokenizer: Path | None,
    answer_tokens: int | None,
    rate_rps: float | None,
    seed: int,
    output: Output,
    **source: Any,
) -> None:
    """Write when requests came and how long they were: .parquet, .csv or .jsonl."""
    from cascadia.imports.tokens import counter_of
    from cascadia.imports.trace import trace_of
    from cascadia_traces.formats.writing import write_trace

    found = _records(output, **source)
    if found.format in ("mooncake", "qwen") and "hash_ids" in found.columns:
        output.note("its hash_ids are left out; `cascadia trace convert` keeps them, for prefix caches")
    made = trace_of(
        found,
        counter_of(tokenizer),
        rate_rps=rate_rps,
        answer_tokens=answer_tokens,
        seed=seed,
        note=output.note,
    )
    write_trace(made, out)
    output.show(f"{out}: {len(made):,} requests in {made.duration_s:,.0f} s, from {found.format}")
    facts = {
        "requests": len(made),
        "duration_s": made.duration_s,
        "rate_rps": made.rate_rps,
        "failed": found.failed,
    }
    output.document({"file": str(out), "format": found.format, **facts})


@import_.command()
@with_source
@click.option("--reference", is_flag=True, help="Keep each prompt's reference, to check answers against.")
@with_output
@ends_at_once
def prompts(out: Path, reference: bool, output: Output, **source: Any) -> None:
    """Write the questions that were asked, each once, as .jsonl for `cascadia profile quality`."""
    import json

    from cascadia.files.text import write_whole
    from cascadia.imports.prompts import prompts_of

    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise BadInput(str(out), "prompts are written as JSON lines", "end its name in .jsonl")
    found = _records(output, **source)
    rows = prompts_of(found, reference=reference, note=output.note)
    write_whole(out, "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows))
    output.show(f"{out}: {len(rows):,} prompts, from {found.format}")
    output.document({"file": str(out), "format": found.format, "prompts": len(rows), "failed": found.failed})


@import_.command()
@with_source
@with_lengths
@click.option(
    "--scale",
    type=positive,
    help="Highest score of the table's judge. Default: 100; a scale that looks smaller is refused.",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME=MODEL",
    help="Stage of the spec and its model in the file, or its column of scores where each model has one; "
    "name them from small to large. Repeatable. "
    "Default: every model, under its own name.",
)
@with_output
@ends_at_once
def quality(
    out: Path,
    tokenizer: Path | None,
    answer_tokens: int | None,
    scale: float | None,
    stages: tuple[str, ...],
    output: Output,
    **source: Any,
) -> None:
    """Write how good each model's answers are: .parquet, .csv or .jsonl."""
    from cascadia.imports.quality import quality_of
    from cascadia.imports.tokens import counter_of
    from cascadia.planner.problem.quality_file import write_quality
    from cascadia.planner.problem.quality_format import kind_of

    kind_of(out)
    named = _named_stages(stages)
    found = _records(output, models=tuple(named.values()), **source)
    table = quality_of(
        found,
        counter_of(tokenizer),
        stages=named,
        scale=scale,
        answer_tokens=answer_tokens,
        note=output.note,
    )
    write_quality(table, out)
    output.show(f"{out}: {len(table):,} prompts at {', '.join(table.stages)}, from {found.format}")
    document = {"file": str(out), "format": found.format, "prompts": len(table), "stages": list(table.stages)}
    output.document({**document, "mean_quality": table.quality.mean(axis=1), "failed": found.failed})


def _named_stages(given: tuple[str, ...]) -> dict[str, str]:
    """Model in the file by our name of the stage. Raises `BadInput` for what is no such pair, for a name that no spec
    can have, and for a name or model that is there twice."""
    from cascadia.domain.names import name_fault

    named: dict[str, str] = {}
    for one in given:
        name, _, model = one.partition("=")
        if not (name and model):
            example = "write it like small=meta-llama/Llama-3.1-8B-Instruct"
            raise BadInput("--stage", f"{one!r} is not NAME=MODEL", example)
        # A stage's exits have rows of their own, such as `thinker@512`.
        if (fault := name_fault(name.partition("@")[0])) is not None:
            raise BadInput("--stage", fault)
        if name in named or model in named.values():
            what = name if name in named else model
            raise BadInput(
                "--stage", f"{what!r} is there twice", "give each model one stage, each stage one model"
            )
        named[name] = model
    return named


def _records(
    output: Output,
    sources: tuple[Path, ...],
    maps: tuple[str, ...],
    format_: str | None,
    split: str | None,
    models: tuple[str, ...] = (),
) -> "Records":
    from cascadia.imports.records import maps_of, read_records

    with output.progress(f"reading {sources[0].name}"):
        return read_records(sources, maps_of(maps), format_, split, models)
