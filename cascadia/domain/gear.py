"""Gears: settings of one cascade between which its router goes at once, by how many requests are under way.

A gear says which stages are asked, in order, and when an answer is kept (CascadeServe section 4). All gears of a plan
run on the same replicas. The light ones ask less of the GPUs, and come where much is under way.

`Ladder` and `Shift` are the rule by which a gear is chosen. Router and simulator both follow it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise

DEAD_BAND = 0.10
"""A heavier gear comes back only where so much less is under way than at its border."""
HOLD_S = 1.0
"""A heavier gear comes back only after so many seconds of that."""


@dataclass(frozen=True, slots=True)
class GearPrediction:
    """Expectations of a plan for a gear: the shares (0-1) of time and requests that it serves, and of these the mean
    quality, its lower bound, the latency's quantiles and the share later than its bound. `usd_per_1k_elsewhere`: what
    APIs charge for a thousand; None where none is asked.
    """

    time_share: float
    request_share: float
    quality_mean: float
    _: KW_ONLY
    quality_lower: float
    p50_s: float
    p95_s: float
    p99_s: float
    late: float
    usd_per_1k_elsewhere: float | None = None


@dataclass(frozen=True, slots=True)
class Gear:
    """A setting for up to `max_in_flight` requests under way in the whole fleet; None: for any number.

    `stages` are those that are asked, in order; no other is. `thresholds` and `skip_below` belong to the plan's stages
    but the last, as the plan's own do; of stages that the gear does not ask they say nothing. `max_rate_rps` is the
    steady rate at which about `max_in_flight` are under way, for people to read. `shares` are always empty: work
    goes to replicas by the plan's own.
    """

    max_in_flight: float | None
    max_rate_rps: float | None
    stages: tuple[str, ...]
    thresholds: tuple[float, ...]
    skip_below: tuple[float, ...] = ()
    shares: dict[str, tuple[float, ...]] = field(default_factory=dict)
    predicted: GearPrediction | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """Gears in order, heaviest first: gear i is for `borders[i - 1]` < requests under way <= `borders[i]`."""

    borders: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(above <= below for below, above in pairwise((0.0, *self.borders))):
            raise ValueError(f"borders do not rise: {self.borders}")

    @property
    def last(self) -> int:
        """The lightest gear."""
        return len(self.borders)

    def at(self, in_flight: float) -> int:
        """The gear for so many requests under way."""
        return bisect_left(self.borders, in_flight)


def ladder_of(gears: tuple[Gear, ...]) -> Ladder:
    """Raises ValueError where the borders do not rise, or one before the last gear has none."""
    borders = [gear.max_in_flight for gear in gears[:-1]]
    if None in borders or (gears and gears[-1].max_in_flight is not None):
        raise ValueError("all gears but the last have a border, and the last has none")
    return Ladder(tuple(border for border in borders if border is not None))


def rooms(loads: Sequence[float | None]) -> list[float]:
    """Times that each stage could lose of its planned replicas before it is as full as the fullest, by the share of
    what they sustain that the plan sends them; None: as full as that."""
    fullest = max((load or 1.0 for load in loads), default=1.0)
    return [fullest / (load or fullest) for load in loads]


class Shift:
    """The gear in force, asked at each arrival; needs no timer.

    It goes to a lighter gear at once. It goes back when at each arrival of `hold_s` seconds so few were under way that
    the border to the next heavier gear lay at least `dead_band` above them: to the gear for the load at the last of
    these, which may be heavier still.
    """

    __slots__ = ("_calm_since", "_dead_band", "_hold_s", "gear", "ladder")

    def __init__(self, ladder: Ladder, dead_band: float = DEAD_BAND, hold_s: float = HOLD_S) -> None:
        self.ladder = ladder
        self.gear = 0
        self._dead_band = dead_band
        self._hold_s = hold_s
        self._calm_since: float | None = None

    def arrival(self, in_flight: float, now_s: float, capacity: float = 1.0) -> int:
        """The gear of a request that meets `in_flight` others, at `now_s` >= 0, never falling.

        `capacity` (above 0) is the share of the planned load that replicas carry: borders shrink with it.
        """
        load = in_flight / capacity
        at = self.ladder.at(load)
        if at >= self.gear:
            self.gear = at
            self._calm_since = None
            return at
        calm = self.ladder.at(load / (1 - self._dead_band))
        if calm >= self.gear:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now_s
        elif now_s - self._calm_since >= self._hold_s:
            self.gear = calm
            self._calm_since = None
        return self.gear
