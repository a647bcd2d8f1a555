"""The engine of a probe: its address and the folder that it saves slots into."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    import httpx

CONNECT_S = 10.0
ANSWER_S = 600.0


class ProbeEngine(NamedTuple):
    url: str
    slot_folder: Path


def with_probe_engine(told: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds `engine_url` and `slot_folder`; `told` says what the engine does."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        command = click.option(
            "--slot-folder",
            type=click.Path(path_type=Path),
            help="Folder that the engine has as --slot-save-path; best on a RAM disk (/dev/shm). "
            "Required for a probe, and of it alone.",
        )(command)
        return click.option(
            "--engine",
            "engine_url",
            metavar="URL",
            help=f"Address of a llama.cpp server on this machine, {told}, e.g. http://127.0.0.1:8100. "
            "Required for a probe, and of it alone.",
        )(command)

    return decorated


def probe_engine(url: str | None, folder: Path | None) -> ProbeEngine:
    """Raises `BadInput` where one is missing, or the folder is not there."""
    if url is None:
        raise BadInput(
            "--engine", "is missing: a probe reads an engine's states", "write http://127.0.0.1:PORT"
        )
    if folder is None:
        raise BadInput("--slot-folder", "is missing", "name the engine's --slot-save-path")
    if not folder.is_dir():
        raise BadInput(f"--slot-folder {folder}", "is no folder", "name the engine's --slot-save-path")
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"--engine {url}", "is no address", "write http://127.0.0.1:PORT")
    return ProbeEngine(url.rstrip("/").removesuffix("/v1"), folder)


def client_of(engine: ProbeEngine) -> "httpx.AsyncClient":
    import httpx

    return httpx.AsyncClient(
        base_url=engine.url, timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S), trust_env=False
    )
