"""llama.cpp's server, seen from the machine that it runs on: its slots and what their caches hold.

The server must have been started with `--slot-save-path`, and the folder must be ours to read and delete in; a RAM disk
(/dev/shm) is the place for it.
"""

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from cascadia.domain.errors import CascadiaError

TIMEOUT_S = 30.0


class EngineFailed(CascadiaError):
    """The server did not do what it was asked for."""


class LlamaSlots:
    """`folder` is the server's `--slot-save-path`. `headers` (a key) go with each request."""

    def __init__(self, client: httpx.AsyncClient, folder: Path) -> None:
        self.client = client
        self.folder = folder

    async def count(self) -> int:
        """Number of slots. Raises `EngineFailed`."""
        slots = (await self._asked("GET", "/props", None, {})).get("total_slots")
        if not isinstance(slots, int) or slots < 1:
            raise EngineFailed(f"{self.client.base_url} does not say how many slots it has: is it llama.cpp?")
        return slots

    async def saved(self, slot: int, headers: Mapping[str, str]) -> mmap.mmap:
        """Cache of what the slot ran last. Raises `EngineFailed`."""
        name = f"probe-{os.getpid()}-{slot}.bin"
        path = f"/slots/{slot}?action=save"
        await self._asked("POST", path, {"filename": name}, headers)
        file = self.folder / name
        try:
            with file.open("rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise EngineFailed(
                f"{self.client.base_url} saved a slot, but not into {self.folder}: name its --slot-save-path"
            ) from None
        finally:
            file.unlink(missing_ok=True)

    async def prefilled(
        self, slot: int, chat: Mapping[str, Any], answer: str, headers: Mapping[str, str]
    ) -> int:
        """Has the slot read a chat and `answer` behind it; returns the tokens of the chat. Raises `EngineFailed`."""
        prompt = (await self._asked("POST", "/apply-template", chat, headers)).get("prompt")
        tokenized = {"content": prompt, "add_special": True, "parse_special": True}
        tokens = (await self._asked("POST", "/tokenize", tokenized, headers)).get("tokens")
        if not isinstance(prompt, str) or not isinstance(tokens, list):
            raise EngineFailed(f"{self.client.base_url} does not show its prompts: is it llama.cpp?")
        body = {"prompt": prompt + answer, "n_predict": 0, "id_slot": slot, "cache_prompt": True}
        await self._asked("POST", "/completion", body, headers)
        return len(tokens)

    async def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        try:
            reply = await self.client.request(method, path, json=body, headers=dict(headers))
            found = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            raise EngineFailed(f"{self.client.base_url}{path}: {error!r}"[:300]) from None
        if reply.status_code != 200 or not isinstance(found, dict):
            raise EngineFailed(f"{self.client.base_url}{path} says {reply.status_code}: {reply.text[:200]}")
        return found
