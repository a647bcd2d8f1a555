"""`cascadia engine serve`: several one-pass models behind one port."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.engine.models import named, runners_of
from cascadia.cli.exits.common import promise_of, shadow_option, with_promise
from cascadia.cli.judge.common import encoder_option, read_judge
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.service import bound_threads, key_of, listening_at, with_service
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from cascadia.onepass.runner import Exits


@click.command()
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@with_service(
    port=8300, queue=4096, queued="inputs", batch=32, batched="inputs of several requests in one pass"
)
@click.option(
    "--exits",
    "with_exits",
    is_flag=True,
    help="Let inputs leave early at certified exits; `cascadia exits train` has put their ramps beside "
    "each MODEL.",
)
@click.option(
    "--judge",
    "judge_file",
    type=click.Path(path_type=Path),
    help="File of `cascadia judge train` to serve at /v1/score; as by `cascadia judge serve`. Default: none.",
)
@encoder_option
@with_promise
@shadow_option
@with_output
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    threads: int,
    most_waiting: int,
    at_once: int,
    api_key_env: str | None,
    with_exits: bool,
    judge_file: Path | None,
    encoder_folder: Path | None,
    risk: float,
    confidence: float,
    shadow: float,
    output: Output,
) -> None:
    """Serve each MODEL (a folder that `cascadia engine make` wrote, or NAME=FOLDER) until SIGTERM.

    FOLDER@layer-2 serves passes that end behind layer 2, at the ramp that `cascadia exits train` put there; of
    FOLDER@layer-2/0.9 those inputs end there whose answer has a chance above 0.9, and the others go on.

    POST /v1/classify {model, input} and /v1/rerank {model, query, documents} answer in the shapes of vLLM's and
    SGLang's servers; so do GET /v1/models, /health and /metrics. Requests of one model that wait together share a
    pass; a request with a list is a pass of its own where nothing else waits.
    """
    bound_threads(threads)
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.onepass.app import application
    from cascadia.onepass.exits import exits_of

    api_key = key_of(api_key_env)
    promise = promise_of(risk, confidence)

    def exits(folder: Path) -> "Exits | None":
        return exits_of(folder, promise, shadow, threads) if with_exits else None

    runners = runners_of(map(named, models), threads, exits)
    names = [runner.model.name for runner in runners]
    if len(set(names)) < len(names):
        raise BadInput("MODEL", f"two are named alike ({', '.join(names)})", "name each folder once")
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.serving({"url": url, "models": names}, f"serving {', '.join(names)} at {url}/v1", port)

    if judge_file is None:
        app: ASGIApp = application(runners, most_waiting=most_waiting, at_once=at_once, api_key=api_key)
    else:
        from cascadia.judge_service.beside import EngineWithJudge

        judge = read_judge(judge_file, encoder_folder, threads, output)
        app = EngineWithJudge(runners, judge, most_waiting=most_waiting, at_once=at_once, api_key=api_key)
    run(app, listening, told)
