"""`cascadia judge serve`: the embedding judge as a small HTTP service."""

import sys
from pathlib import Path

import click

from cascadia.cli.judge.common import encoder_folder_of, encoder_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output, write
from cascadia.cli.shared.service import bound_threads, key_of, listening_at, with_service


@click.command()
@click.argument("judge_file", metavar="JUDGE", type=click.Path(path_type=Path))
@with_service(port=8200, queue=1024, queued="answers", batch=16, batched="answers judged together")
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
    bound_threads(threads)
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.judge_service.app import application
    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.encoder.memory import Remembering

    api_key = key_of(api_key_env)
    judge = EmbeddingJudge.read(
        judge_file, Remembering(Encoder.read(encoder_folder_of(encoder_folder, output), threads))
    )
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.document({"url": url, "heads": [[head.stage, *head.groups] for head in judge.heads]})
        if not output.json and not output.quiet:
            write(f"judging at {url}/v1/score")
        sys.stdout.flush()

    app = application(judge, most_waiting=most_waiting, at_once=at_once, api_key=api_key)
    run(app, listening, told)
