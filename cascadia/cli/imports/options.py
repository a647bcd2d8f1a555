"""Options of every `cascadia import`."""

from collections.abc import Callable
from pathlib import Path

import click

from cascadia.cli.shared.output_dir import Written

FORMATS = (
    "litellm",
    "langfuse",
    "openai",
    "vllm-log",
    "vllm-bench",
    "guidellm",
    "aiperf",
    "lm-eval",
    "sharegpt",
    "table",
)


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """The files, and how their columns are to be read."""
    for option in (
        click.argument(
            "sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path)
        ),
        click.option(
            "--out",
            type=Written(),
            required=True,
            help="File to write, of the kind that its name ends in.",
        ),
        click.option(
            "--map",
            "maps",
            multiple=True,
            metavar="OURS=THEIRS",
            help="Column to take one of ours from, such as score=judge_score; dots enter nested "
            "values. Repeatable. Default: told from the file.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Program that wrote the file; table: none of these. Default: told from its content.",
        ),
        click.option("--split", help="Split of a Hugging Face data set. Default: its only one."),
    ):
        command = option(command)
    return command


def with_lengths(command: Callable[..., None]) -> Callable[..., None]:
    """The way tokens are counted where the file has texts only."""
    for option in (
        click.option(
            "--tokenizer",
            type=click.Path(path_type=Path),
            help="Model's folder or tokenizer.json that counts tokens; used for a file that has texts "
            "only. Default: one token for 4 characters.",
        ),
        click.option(
            "--answer-tokens",
            type=click.IntRange(1, 1_000_000),
            help="Tokens of an answer that the file neither has nor counts. Default: such a file is refused.",
        ),
    ):
        command = option(command)
    return command
