"""Everything the report shows, as numbers. What is absent is left out of the report, its section with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.plan import Plan, ReplicaGroup

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LatencySamples:
    """Simulated latencies in seconds: `e2e_s` of all requests, `stages_s` of those that reached the stage."""

    e2e_s: Floats
    stages_s: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentCurve:
    """Share (0-1) of requests done within `scale` (k, ascending) times the base SLO.

    `scale_at_95` is the least scale that 95 % meet, None where the curve never gets there. A name that a
    baseline of the frontier has too is that baseline: its quality is looked up there.
    """

    name: str
    scale: Floats
    attainment: Floats
    scale_at_95: float | None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One way to serve the workload: a routing of ours, the chosen one, or a baseline at its best setting.

    `latency_s` is of the objective's quantile, end to end. `label` may be empty for points of the frontier.
    """

    quality_mean: float
    quality_lower: float
    latency_s: float
    usd_per_1k_requests: float
    label: str = ""
    chosen: bool = False
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class KneePoint:
    """A deployment of the asked quality that none which was tried beats in both $/h and latency.

    `replicas` are by stage, the judge's under `judge`. `fastest`: of all; `chosen`: this plan.
    """

    usd_per_hour: float
    latency_s: float
    gpus: int
    replicas: Mapping[str, Sequence[ReplicaGroup]]
    chosen: bool = False
    fastest: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RateSensitivity:
    """End-to-end latencies of this plan (k) at `multiplier` (k) times the planned rate; NaN: not sustained."""

    multiplier: Floats
    p50_s: Floats
    p95_s: Floats
    p99_s: Floats


@dataclass(frozen=True, slots=True)
class QualityStep:
    """The best plan at another quality bar. `gpus` per stage; `latency_s` NaN where no plan reaches the bar."""

    quality_min: float
    latency_s: float
    gpus: Mapping[str, int]
    usd_per_1k_requests: float


@dataclass(frozen=True, slots=True, eq=False)
class QueueLength:
    """Requests `waiting` (k) in a stage, over all its replicas: means over windows about `time_s` (k); most at once,
    `peak` at `peak_s`.
    """

    name: str
    time_s: Floats
    waiting: Floats
    peak: int
    peak_s: float


@dataclass(frozen=True, slots=True, eq=False)
class LoadOverTime:
    """`in_flight` (k) requests at the times of a `Swing`, and the share (0-1) of those that come about then whose
    answer is `late` (k); NaN where none comes. Of all: `late_share`, and the lower bound on quality.
    """

    in_flight: Floats
    late: Floats
    late_share: float
    quality_lower: float


@dataclass(frozen=True, slots=True, eq=False)
class Swing:
    """The trace at `time_s` (k): its rate, the mean `gear` (0 the heaviest, NaN where none comes) of who comes about
    then, and how it goes `on_gears` and, where that was simulated, with the plan's own setting `alone`. Late is beyond
    `bound_s`.
    """

    time_s: Floats
    rate_rps: Floats
    gear: Floats
    switches: int
    bound_s: float
    on_gears: LoadOverTime
    alone: LoadOverTime | None


@dataclass(frozen=True, slots=True)
class Worth:
    """Requests a dollar at a stage on a pool: of all, and by quarter, smallest first."""

    stage: str
    pool: str
    requests_per_usd: float
    by_size: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Renting:
    """`costs`: the least an hour (second) that carries a rate (first)."""

    worths: tuple[Worth, ...]
    costs: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReportData:
    """`gpu_names` give a catalogue name its readable form ("h100-sxm": "H100"); absent ones are derived.

    `spec_name` is the file's name without its folder; `date` is ISO 8601; `slo_base_s` is what SLO scale 1
    means. `tokens_per_request` are a prompt's and those of the answer that its client gets, on average. `command` makes
    the plan again; where empty it is put together from spec and seed.
    """

    plan: Plan
    notes: tuple[str, ...] = ()
    spec_name: str = "cascade.yaml"
    command: str = ""
    version: str = ""
    date: str = ""
    gpu_names: Mapping[str, str] = field(default_factory=dict)
    latency: LatencySamples | None = None
    queues: tuple[QueueLength, ...] = ()
    frontier: tuple[FrontierPoint, ...] = ()
    knee: tuple[KneePoint, ...] = ()
    attainment: tuple[AttainmentCurve, ...] = ()
    slo_base_s: float | None = None
    rate_sensitivity: RateSensitivity | None = None
    quality_sensitivity: tuple[QualityStep, ...] = ()
    swing: Swing | None = None
    renting: Renting | None = None
    tokens_per_request: float | None = None

    def misses_bar(self, name: str) -> bool:
        """Tells whether the baseline `name` is known to stay below the quality that was asked for."""
        bar = self.plan.objective.quality_min
        if bar is None:
            return False
        return any(p.baseline and p.label == name and p.quality_lower < bar - 1e-9 for p in self.frontier)
