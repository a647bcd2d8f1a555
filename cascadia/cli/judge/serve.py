"""`cascadia judge serve`: the embedding judge as a small HTTP service, or a probe in front of its engine."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.exits.common import promise_of, shadow_option, with_promise
from cascadia.cli.judge.common import encoder_folder_of, encoder_option, read_judge
from cascadia.cli.judge.probe_engine import with_probe_engine
from cascadia.cli.judge.serve_probe import serve_probe
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.service import bound_threads, key_of, listening_at, with_service
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise

if TYPE_CHECKING:
    from cascadia.judge_service.batches import Judges


@click.command()
@click.argument("judge_file", metavar="JUDGE", type=click.Path(path_type=Path))
@click.argument("engine_command", metavar="[-- ENGINE...]", nargs=-1)
@with_service(port=8200, queue=1024, queued="answers", batch=16, batched="answers judged together")
@encoder_option
@with_probe_engine("whose answers a probe scores")
@click.option(
    "--exits",
    "with_exits",
    is_flag=True,
    help="Give verdicts early at certified exits; `cascadia judge train-exits` put their ramp beside JUDGE.",
)
@with_promise
@shadow_option
@with_output
def serve(
    judge_file: Path,
    engine_command: tuple[str, ...],
    host: str,
    port: int,
    threads: int,
    most_waiting: int,
    at_once: int,
    api_key_env: str | None,
    encoder_folder: Path | None,
    engine_url: str | None,
    slot_folder: Path | None,
    with_exits: bool,
    risk: float,
    confidence: float,
    shadow: float,
    output: Output,
) -> None:
    """Serve JUDGE (a file of `cascadia judge train`) until SIGTERM.

    POST /v1/score {question, answer, certainty, stage} answers {score, certainty, tokens, judge}; /v1/scores takes
    {items: [...]}. The router asks it where its judge is of kind embedding.

    Of a probe, POST /v1/chat/completions and /v1/completions are answered by the engine, with a score under
    `cascadia_probe`: a router with a judge of kind probe names this address as the stage's replica. ENGINE, the command
    of a llama.cpp server without host and port, is started, and ended with it.
    """
    bound_threads(threads)
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.judge_service.app import application
    from cascadia.judge_service.exits import ExitingJudge, JudgeExits
    from cascadia.judge_service.ramp import EarlyEncoder, read_ramp, state_of
    from cascadia_judge.probe.file import is_probe

    promise = promise_of(risk, confidence)
    if is_probe(judge_file):
        if with_exits:
            raise BadInput("--exits", "is not of a probe", "leave it out")
        if api_key_env is not None:
            raise BadInput("--api-key-env", "is not of a probe", "give the engine a key: it is passed on")
        serve_probe(
            judge_file,
            engine_command,
            engine_url,
            slot_folder,
            host,
            port,
            most_waiting=most_waiting,
            output=output,
        )
        return
    if engine_url is not None or slot_folder is not None or engine_command:
        raise BadInput("--engine", "is of a probe, and this is an embedding judge", "leave it out")
    api_key = key_of(api_key_env)
    judge = read_judge(judge_file, encoder_folder, threads, output)
    served: Judges = judge
    if with_exits:
        promised = ExitPromise(promise.risk, promise.confidence, shadow)
        early = EarlyEncoder.read(encoder_folder_of(encoder_folder, output), threads)
        exits = JudgeExits(early, read_ramp(judge_file), promised, state=state_of(judge_file))
        served = ExitingJudge(judge, exits)
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.serving(
            {"url": url, "heads": [[head.stage, *head.groups] for head in judge.heads]},
            f"judging at {url}/v1/score",
            port,
        )

    app = application(served, most_waiting=most_waiting, at_once=at_once, api_key=api_key)
    run(app, listening, told)
