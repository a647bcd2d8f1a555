"""Load, read from the `/metrics` of routers: how many requests came, and how many each stage has in hand."""

from collections.abc import Mapping
from typing import Protocol

from cascadia.clients.engines.facts import samples
from cascadia.controller.scale.size import Load

DONE, UNDER_WAY = "cascadia_requests_total", "cascadia_in_flight"
HELD, WAITING = "cascadia_stage_in_flight", "cascadia_stage_queue_length"


class LoadSource(Protocol):
    async def load(self) -> Load | None:
        """Reads it as it is now; None where no router tells."""
        ...


class RoutersLoad:
    """Load of all routers together, from look to look. Of each, what it counted since it was last heard counts as come:
    one that begins anew, is heard for the first time, or again after a while brings nothing from before."""

    def __init__(self) -> None:
        self._came = 0.0
        self._counts: dict[str, float] = {}

    def load(self, texts: Mapping[str, str]) -> Load | None:
        """Reads what the `/metrics` of each router say, by its name; None where none tells."""
        in_hand, told = dict[str, float](), False
        for router, text in texts.items():
            found = samples(text)
            told |= UNDER_WAY in found
            count = sum(value for name in (DONE, UNDER_WAY) for _, value in found.get(name, ()))
            self._came += max(0.0, count - self._counts.get(router, count))
            self._counts[router] = count
            for name in (HELD, WAITING):
                for labels, value in found.get(name, ()):
                    in_hand[labels["stage"]] = in_hand.get(labels["stage"], 0.0) + value
        return Load(self._came, in_hand) if told else None
