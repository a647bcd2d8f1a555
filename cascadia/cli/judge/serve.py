"""`cascadia judge serve`: the embedding judge as a small HTTP service."""

import os
import sys
from pathlib import Path

import click

from cascadia.cli.judge.common import encoder_folder_of, encoder_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output, write
from cascadia.domain.errors import BadInput

THREADS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.command()
@click.argument("judge_file", metavar="JUDGE", type=click.Path(path_type=Path))
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8200,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of threads of the arithmetic.",
)
@click.option(
    "--queue",
    "most_waiting",
    type=click.IntRange(1, 1_000_000),
    default=1024,
    show_default=True,
    help="Number of answers that may wait; others are refused with 429.",
)
@click.option(
    "--batch",
    "at_once",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Number of answers judged together, at most.",
)
@click.option(
    "--api-key-env",
    metavar="VARIABLE",
    help="Environment variable with the key that callers must send. Default: none is asked for.",
)
@encoder_option
@with_output
def serve(
    judge_file: Path,
    host: str,
    port: int,
    threads: int,
    most_waiting: int,
    at_once: int,
    api_key_env: str | None,
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """Serve JUDGE (a file of `cascadia judge train`) until SIGTERM.

    POST /v1/score {question, answer, certainty, stage} answers {score, certainty, tokens}; /v1/scores takes
    {items: [...]}. The router asks it where its judge is of kind embedding.
    """
    for variable in THREADS_VARIABLES:
        os.environ.setdefault(variable, str(threads))
    from cascadia.clients.processes.ports import listen
    from cascadia.judge_service.app import application
    from cascadia.judge_service.server import BACKLOG, run
    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.encoder.memory import Remembering

    api_key = os.environ.get(api_key_env, "").strip() if api_key_env else None
    if api_key == "":
        raise BadInput("--api-key-env", f"the variable {api_key_env} is not set", "set it to the key")
    judge = EmbeddingJudge.read(
        judge_file, Remembering(Encoder.read(encoder_folder_of(encoder_folder, output), threads))
    )
    try:
        listening = listen(host, port, backlog=BACKLOG)
    except OSError as error:
        raise BadInput(
            "--port", f"cannot listen on {host}:{port} ({error.strerror})", "name another"
        ) from None
    url = f"http://{host}:{listening.getsockname()[1]}"

    def told() -> None:
        output.document({"url": url, "heads": [[head.stage, *head.groups] for head in judge.heads]})
        if not output.json and not output.quiet:
            write(f"judging at {url}/v1/score")
        sys.stdout.flush()

    app = application(judge, most_waiting=most_waiting, at_once=at_once, api_key=api_key)
    run(app, listening, told)
