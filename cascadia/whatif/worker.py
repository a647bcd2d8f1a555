"""One plan in a process of its own: the page goes on being served, and a plan that is not wanted is ended.

The child reads its request from standard input as JSON, and writes a line of JSON for what it has to say:
`{"sliders": …}`, `{"step": text}`, and at last `{"told": …}` or `{"error": one line}`. What else it prints goes to
`planning.log` in its folder.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cascadia.domain.errors import CascadiaError
from cascadia.whatif.asked import Asked

MOST_LINE_BYTES = 2**26
LOG = "planning.log"

Say = Callable[[dict[str, Any]], None]


class NotPlanned(CascadiaError):
    """No plan came of it; says why in one line."""


class Worker:
    """`command` starts the child; `spec` is the file that all plans are of."""

    def __init__(self, command: Sequence[str], spec: Path) -> None:
        self._command = command
        self._spec = spec

    async def plan(self, asked: Asked, folder: Path, say: Say) -> dict[str, Any]:
        """Makes the plan, its files in `folder`, and returns what the child told of it; `say` gets the other lines.

        Raises `NotPlanned`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        request = {"spec": str(self._spec), "folder": str(folder), "asked": asked.document()}
        with (folder / LOG).open("wb") as log:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=MOST_LINE_BYTES,
                start_new_session=True,
            )
        try:
            return await _told(child, json.dumps(request).encode(), say)
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


async def _told(child: asyncio.subprocess.Process, request: bytes, say: Say) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(ConnectionError):
        child.stdin.write(request)
        await child.stdin.drain()
        child.stdin.close()
    async for line in child.stdout:
        said = json.loads(line)
        if "error" in said:
            raise NotPlanned(said["error"])
        if "told" in said:
            told: dict[str, Any] = said["told"]
            return told
        say(said)
    raise NotPlanned(f"planning ended with exit code {await child.wait()} and no plan")
