"""The problem that a policy solves: models that answer in one pass, workers, arrivals, and the time there is."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from cascadia.domain.workload import Floats
from cascadia.policy.arrivals import Arrivals

MOST_QUEUED = 512
"""A worker's queue is not followed beyond this length."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A model on one kind of worker: its accuracy (0-100), and the seconds that a batch of 1, 2, ... is counted for.

    `drawn_s` are times that such a batch took, each as likely as the others and as many for all sizes and models;
    empty: it always takes what it is counted for.
    """

    name: str
    accuracy: float
    latency_s: tuple[float, ...]
    drawn_s: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.latency_s or min(self.latency_s) <= 0:
            raise ValueError(f"model {self.name!r} needs a latency above 0 for each batch size")
        if self.drawn_s and (
            len(self.drawn_s) != len(self.latency_s)
            or len({len(times_s) for times_s in self.drawn_s}) > 1
            or min(map(min, self.drawn_s)) <= 0
        ):
            raise ValueError(
                f"model {self.name!r} needs as many drawn times above 0 for each batch size that has a latency"
            )
        if not 0 <= self.accuracy <= 100:
            raise ValueError(
                f"the accuracy of model {self.name!r} is {self.accuracy:g}; it lies within 0-100"
            )

    def carried_rps(self, within_s: float) -> float:
        """The most requests a second that one worker answers in the long run, in batches that may be in time; 0 where
        none may."""
        drawn_s = self.drawn_s or tuple((latency_s,) for latency_s in self.latency_s)
        rates = [
            size * len(times_s) / sum(times_s)
            for size, times_s in enumerate(drawn_s, start=1)
            if min(times_s) <= within_s
        ]
        return max(rates, default=0.0)

    def largest_batch(self, within_s: float) -> int:
        """The largest batch that takes no longer than `within_s`; 0 where none does."""
        fits = [size for size, latency_s in enumerate(self.latency_s, start=1) if latency_s <= within_s]
        return max(fits, default=0)

    def throughput_rps(self, within_s: float) -> float:
        """The most requests a second that one worker answers in batches of at most `within_s`; 0 where none fits."""
        rates = [
            size / latency_s
            for size, latency_s in enumerate(self.latency_s, start=1)
            if latency_s <= within_s
        ]
        return max(rates, default=0.0)


def on_the_front(models: Sequence[ModelProfile]) -> tuple[ModelProfile, ...]:
    """Models that none both beats in accuracy and, at every batch size, in latency (RAMSIS section 4.3.3), from the
    least accurate to the most."""

    def beats(other: ModelProfile, model: ModelProfile) -> bool:
        sizes = len(model.latency_s)
        fast = len(other.latency_s) >= sizes and all(
            a <= b for a, b in zip(other.latency_s, model.latency_s, strict=False)
        )
        same = other.accuracy == model.accuracy and other.latency_s == model.latency_s
        return fast and other.accuracy >= model.accuracy and not (same and other.name >= model.name)

    kept = [
        model for model in models if not any(beats(other, model) for other in models if other is not model)
    ]
    return tuple(sorted(kept, key=lambda model: (model.accuracy, -model.latency_s[0])))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One of `workers` equal workers that are sent `arrivals` in turn (RAMSIS section 4).

    Sets and states: a queue holds 0 to `queued_max` requests; the earliest has at least `slack_s[j]` left, less than
    `slack_s[j + 1]`. Where more have joined than the queue is followed for it counts as full, without slack, and what
    is beyond is lost (section 4.2.3). Actions: a model for the whole queue (`maximal`), or for a part (`variable`).
    `late`: where no model answers the queue in time, the one that is fastest with so many takes it (`serve`), or as
    much as still can be in time is served and the rest refused (`drop`).
    """

    models: tuple[ModelProfile, ...]
    arrivals: Arrivals
    _: KW_ONLY
    slo_s: float
    workers: int
    slack_s: Floats
    queued_max: int
    late: Literal["serve", "drop"] = "serve"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.models)


def problem(
    models: Sequence[ModelProfile],
    arrivals: Arrivals,
    *,
    slo_s: float,
    workers: int,
    slack_steps: int | None = 100,
    late: Literal["serve", "drop"] = "serve",
) -> Problem:
    """The problem of one worker, with the models on the front of accuracy and latency.

    `slack_steps` cuts the slack into so many equal steps (FLD, section 4.2.2); None: at the models' own latencies (MD,
    section 4.2.1). Raises ValueError where no model answers a single request in time.
    """
    useful = [model for model in on_the_front(models) if model.latency_s[0] <= slo_s]
    if not useful:
        least = min(model.latency_s[0] for model in models)
        raise ValueError(f"no model answers within {slo_s:g} s; the fastest takes {least:g} s")
    largest = max(model.largest_batch(slo_s) for model in useful)
    fastest = min(useful, key=lambda model: model.latency_s[0])
    # A tenth more than the largest batch, so that a longer queue is told from a full one (32 for 29 in section 6).
    queued_max = min(largest + max(1, largest // 10), len(fastest.latency_s), MOST_QUEUED)
    if slack_steps is None:
        own = {latency_s for model in useful for latency_s in model.latency_s[:largest] if latency_s <= slo_s}
        slack_s = np.array(sorted({0.0, slo_s, *own}))
    else:
        slack_s = np.linspace(0.0, slo_s, slack_steps + 1)
    return Problem(
        tuple(useful),
        arrivals,
        slo_s=slo_s,
        workers=workers,
        slack_s=slack_s,
        queued_max=queued_max,
        late=late,
    )
