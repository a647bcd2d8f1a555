"""Load, read from the `/metrics` of routers: how many requests came, and how many each stage has in hand."""

from collections.abc import Iterable
from typing import Protocol

from cascadia.clients.engines.facts import samples
from cascadia.controller.scale.size import Load

DONE, UNDER_WAY = "cascadia_requests_total", "cascadia_in_flight"
HELD, WAITING = "cascadia_stage_in_flight", "cascadia_stage_queue_length"


class LoadSource(Protocol):
    async def load(self) -> Load | None:
        """Reads it as it is now; None where no router tells."""
        ...


def load_of(texts: Iterable[str]) -> Load | None:
    """Reads the load of all routers together, each with what its `/metrics` say."""
    came, in_hand, told = 0.0, dict[str, float](), False
    for text in texts:
        found = samples(text)
        told |= UNDER_WAY in found
        came += sum(value for name in (DONE, UNDER_WAY) for _, value in found.get(name, ()))
        for name in (HELD, WAITING):
            for labels, value in found.get(name, ()):
                in_hand[labels["stage"]] = in_hand.get(labels["stage"], 0.0) + value
    return Load(came, in_hand) if told else None
