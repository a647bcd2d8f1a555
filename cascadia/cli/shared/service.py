"""Options of commands that serve HTTP, and what they begin with."""

import os
import socket
from collections.abc import Callable
from typing import Any

import click

from cascadia.domain.errors import BadInput
from cascadia.files.addresses import http_url

THREADS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def with_service(
    *, port: int, queue: int, queued: str, batch: int, batched: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds `host`, `port`, `threads`, `most_waiting`, `at_once` and `api_key_env`, with these defaults."""
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 takes a free one.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, 64),
            default=1,
            show_default=True,
            help="Number of threads of the arithmetic.",
        ),
        click.option(
            "--queue",
            "most_waiting",
            type=click.IntRange(1, 1_000_000),
            default=queue,
            show_default=True,
            help=f"Number of {queued} that may wait; others are refused with 429.",
        ),
        click.option(
            "--batch",
            "at_once",
            type=click.IntRange(1, 1024),
            default=batch,
            show_default=True,
            help=f"Number of {batched}, at most.",
        ),
        click.option(
            "--api-key-env",
            metavar="VARIABLE",
            help="Environment variable with the key that callers must send. Default: none.",
        ),
    )

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def bound_threads(threads: int) -> None:
    """Tells libraries that are not loaded yet how many threads to compute with, unless the user has."""
    for variable in THREADS_VARIABLES:
        os.environ.setdefault(variable, str(threads))


def key_of(variable: str | None) -> str | None:
    """The key in the environment's `variable`. Raises `BadInput` where there is none."""
    key = os.environ.get(variable, "").strip() if variable else None
    if key == "":
        raise BadInput("--api-key-env", f"the variable {variable} is not set", "set it to the key")
    return key


def listening_at(host: str, port: int, **options: Any) -> tuple[socket.socket, str]:
    """A socket, and its URL. Raises `BadInput`."""
    from cascadia.clients.processes.ports import listen_as_told

    listening = listen_as_told(host, port, **options)
    return listening, http_url(host, listening.getsockname()[1])
