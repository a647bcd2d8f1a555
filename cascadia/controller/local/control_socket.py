"""The fleet's ear: a Unix socket in its folder that only its owner may use; a line of JSON asks, a line answers."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from cascadia.controller.local.fleet import LocalFleet
from cascadia.controller.local.launch import launch_of
from cascadia.controller.local.members import FleetError
from cascadia.controller.move.state import Routing
from cascadia.domain.errors import BadInput, CascadiaError

SOCKET = "control.sock"
ANOTHER_VERSION = "is of a fleet that another version of cascadia started"
BEGIN_ANEW = "end it with `cascadia down`, then start it with `cascadia up PLAN --resume`"
MOST_BYTES = 64 * 2**20


@asynccontextmanager
async def listening(fleet: LocalFleet, down: Callable[[], None]) -> AsyncIterator[None]:
    """Answers while the block runs. `down` is called when somebody asks for the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await _answer(fleet, json.loads(line), down)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # who asked has gone, or spoke no JSON
        finally:
            writer.close()

    path = fleet.folder / SOCKET
    path.unlink(missing_ok=True)
    with _short(fleet.folder) as short:
        server = await asyncio.start_unix_server(serve, f"{short}/{SOCKET}", limit=MOST_BYTES)
        # Who may write here may start programs as this user.
        path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def ask(folder: Path, what: str, **members: Any) -> dict[str, Any]:
    """The fleet's answer. Raises `BadInput` where none runs in `folder`, `FleetError` where it refuses or dies."""
    try:
        with _short(folder) as short:
            reader, writer = await asyncio.open_unix_connection(f"{short}/{SOCKET}", limit=MOST_BYTES)
    except OSError:
        raise BadInput(str(folder), "no fleet runs here", "start one with `cascadia up`") from None
    try:
        writer.write(json.dumps({"do": what, **members}).encode() + b"\n")
        line = await reader.readline()
    except ConnectionError:
        line = b""
    finally:
        writer.close()
    if not line:
        raise FleetError("the fleet ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise FleetError(answer["error"])
    return answer


@contextmanager
def told_by(folder: Path) -> Iterator[None]:
    """Raises `BadInput` where what the fleet in `folder` told is not read as this version's."""
    try:
        yield
    except (KeyError, TypeError):
        raise BadInput(str(folder), ANOTHER_VERSION, BEGIN_ANEW) from None


async def _answer(fleet: LocalFleet, asked: Mapping[str, Any], down: Callable[[], None]) -> dict[str, Any]:
    try:
        return await _done(fleet, asked, down)
    except (CascadiaError, OSError) as error:  # the latter: a full disk, or too few descriptors
        return {"error": str(error)}
    except (KeyError, TypeError) as error:
        told = f"cannot be understood: {error}"
        return {"error": f"{told}; where another version of cascadia started this fleet, {BEGIN_ANEW}"}


async def _done(fleet: LocalFleet, asked: Mapping[str, Any], down: Callable[[], None]) -> dict[str, Any]:
    by_name: dict[str, Callable[[str], Awaitable[None]]] = {
        "await": fleet.await_ready,
        "undrain": fleet.undrain,
        "drain": fleet.drain,
        "stop": fleet.stop,
    }
    match asked["do"]:
        case "observe":
            return await fleet.observe()
        case "start":
            await fleet.start(asked["name"], launch_of(asked["launch"]))
        case "route":
            await fleet.route(Routing.read(asked["routing"]), asked["document"])
        case "down":
            down()
            return {"done": "down", "pid": os.getpid()}
        case other:
            await by_name[other](asked["name"])
    return {"done": asked["do"]}


class _short:
    """A path by which `folder` is reached in few letters: a socket's may have 107 at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        self._descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
