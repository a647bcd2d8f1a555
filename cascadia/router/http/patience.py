"""Time for which a client may keep a connection waiting: for a head, for a body, for its next request, for
reading.
"""

import asyncio
from typing import Literal

from cascadia.router.settings.model import Limits

KEEP_ALIVE_S = 75.0
PARTING_S = 1.0
"""For the next request of a client that was not told that the connection ends: its answer tells it. To close at once
loses the request that is on its way."""
LINGER_S = 2.0
"""What a refused client still sends is read and dropped for this long: a reset would cost it the refusal."""

State = Literal["answering", "writing", "lingering", "body", "head", "idle", "parting"]
"""What a connection is at; `writing`: to a client that does not read, or that is being closed; `parting`: idle, of a
server that ends, or has hardly room for others."""


class Patience:
    """Patience with one connection; `since_s` is when it last came on."""

    __slots__ = ("_held_bytes", "_limits", "_loop", "since_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self._loop = loop
        self._limits = limits
        self._held_bytes = 0
        self.since_s = 0.0

    def begin(self) -> None:
        self.since_s = self._loop.time()

    def holds(self, count: int) -> None:
        """Notes that so many bytes wait for the client to read, from now on."""
        self._held_bytes = count
        self.since_s = self._loop.time()

    def is_over(self, state: State, now_s: float, held_bytes: int = 0) -> bool:
        """Tells whether nothing has come of `state` for too long. `held_bytes` wait for the client to read."""
        waited_s = now_s - self.since_s
        limits = self._limits
        match state:
            case "answering":
                return False
            case "writing":
                if held_bytes != self._held_bytes:
                    self._held_bytes, self.since_s = held_bytes, now_s
                    return False
                return waited_s > limits.idle_s
            case "lingering":
                return waited_s > LINGER_S
            case "body":
                return waited_s > limits.body_s
            case "head":
                return waited_s > limits.head_s
            case "idle":
                return waited_s > KEEP_ALIVE_S
            case "parting":
                return waited_s > PARTING_S
