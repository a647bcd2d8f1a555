"""Gear of each request to the cascade, by how much is under way when it arrives (CascadeServe section 4).

All requests count, straight ones too, since they take the same GPUs. A request keeps its gear to its end. Nothing is
done for a request but a look at numbers that one timer of the process keeps: the others' load, and which share of the
planned load replicas carry. A lost replica is load: with it all borders shrink, and with one more they grow. A lost
API is none: lighter gears, which may send it more, would not help.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from cascadia.domain.gear import Ladder, Shift, rooms
from cascadia.router.live.fleet_load import TELL_S, FleetLoad
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import GearSettings, RouterSettings, StageSettings
from cascadia.router.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from cascadia.router.telemetry.counters import Count

LOOK_S = 0.05
"""How often replicas are counted while there are gears."""
IDLE_S = 1.0
"""How often somebody looks whether there are gears."""
LEAST_CAPACITY = 1e-3
START_S = 2.0
"""So long a router that starts takes replicas of which it has heard nothing yet to be there."""


class Gears:
    """Gears of one plan, and the one in force. `capacity` is the share of the planned load that the ready replicas
    carry: of the stage that it is least of, where each has as much room as its planned load leaves it. `pinned` is in
    force instead of what the load asks for."""

    def __init__(
        self, settings: RouterSettings, stages: Sequence[Stage], load: FleetLoad, metrics: Metrics
    ) -> None:
        self._gears = settings.gears
        self._load = load
        self._metrics = metrics
        asked = {name for gear in settings.gears for name in gear.stages}
        pairs = [
            (stage, told)
            for stage, told in zip(stages, settings.stages, strict=True)
            if told.name in asked and not elsewhere(told)
        ]
        self._stages = [
            (stage, told, room / (told.planned_share or listed(told)))
            for (stage, told), room in zip(pairs, rooms([told.load for _, told in pairs]), strict=True)
        ]
        borders = (gear.max_in_flight for gear in settings.gears)
        self._shift = Shift(Ladder(tuple(border for border in borders if border is not None)))
        self._counts: list[Count] = [metrics.gear_requests.labels(str(gear.number)) for gear in self._gears]
        self.capacity = 1.0
        self._known_s = monotonic() + START_S
        self.pinned: int | None = None

    def __len__(self) -> int:
        return len(self._gears)

    @property
    def number(self) -> int:
        """The gear in force, 0 the heaviest."""
        return self._shift.gear if self.pinned is None else self.pinned

    def arrival(self, lightest: int | None) -> GearSettings:
        """Gear of a request that arrives now, and is counted as under way; none lighter than `lightest`."""
        number = self.pinned
        if number is None:
            load, shift = self._load, self._shift
            before = shift.gear
            in_flight = self._metrics.running * load.alike + load.others - 1
            number = shift.arrival(in_flight, monotonic(), self.capacity)
            if number != before:
                self._metrics.gear_switches.value += 1
        if lightest is not None and number > lightest:
            number = lightest
        self._counts[number].value += 1
        return self._gears[number]

    def pin(self, number: int | None) -> None:
        """Puts gear `number` in force whatever the load, until None is."""
        before = self.number
        self.pinned = number
        self._metrics.gear_switches.value += self.number != before

    def look(self) -> None:
        """Counts the replicas that serve."""
        weight = present if monotonic() < self._known_s else serving
        carried = min((room * weight(stage, told) for stage, told, room in self._stages), default=1.0)
        self.capacity = max(LEAST_CAPACITY, carried)

    def inherit(self, old: "Gears") -> None:
        """Goes on where `old` is, of the plan before; with its own borders from the heaviest gear up."""
        if [gear.max_in_flight for gear in old._gears] == [gear.max_in_flight for gear in self._gears]:
            self._shift = old._shift
        if old.pinned is not None and old.pinned < len(self._gears):
            self.pinned = old.pinned
        self.capacity = old.capacity
        self._known_s = old._known_s


def serving(stage: Stage, _told: StageSettings) -> float:
    """Weight that serves."""
    return sum(r.weight for r in stage.replicas if serves(r))


def present(stage: Stage, told: StageSettings) -> float:
    """Weight of what a router's file lists that is not known to be lost or leaving."""
    lost = (
        r.weight for r in stage.replicas if not (serves(r) or (r.state == "starting" and r.breaker.closed))
    )
    return listed(told) - sum(lost)


def elsewhere(stage: StageSettings) -> bool:
    """Tells whether a stage's replicas are APIs: taken to be there always, without a question after their health."""
    return all(replica.health_path is None for replica in stage.replicas)


def listed(stage: StageSettings) -> float:
    """Weight of all replicas that a stage is to have by its router's file."""
    return sum(replica.share * replica.planned for replica in stage.replicas)


def serves(replica: Replica) -> bool:
    """Tells whether it is neither lost nor leaving; one that is full for a moment serves."""
    return replica.state == "ready" and replica.breaker.closed


class HasGears(Protocol):
    """`gears` of the plan in force; None where one setting serves any load."""

    @property
    def gears(self) -> Gears | None: ...


class GearWatch:
    """The one timer: looks at the replicas of `router`, and has `load` told to the other processes."""

    def __init__(self, router: HasGears, load: FleetLoad) -> None:
        self._router = router
        self._load = load
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._load.start()
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._load.stop()

    async def _look(self) -> None:
        told_s = -TELL_S
        while True:
            gears = self._router.gears
            if gears is not None:
                gears.look()
                if monotonic() - told_s >= TELL_S:
                    told_s = monotonic()
                    self._load.tell()
            await asyncio.sleep(IDLE_S if gears is None else LOOK_S)
