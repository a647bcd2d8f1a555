"""Tables that need no solving: one model, with batches of a size, by slack, or when enough have gathered."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.policy.problem import ModelProfile, on_the_front


@dataclass(frozen=True, slots=True)
class Group:
    """Models on `workers` equal workers, least accurate first, and the time `slo_s` that an answer may take."""

    name: str
    models: tuple[ModelProfile, ...]
    _: KW_ONLY
    slo_s: float
    workers: int
    late: Literal["serve", "drop"] = "serve"

    @property
    def capacity_rps(self) -> float:
        """The most requests a second that any model answers in batches in time, on all workers."""
        return self.workers * max(model.throughput_rps(self.slo_s) for model in self.models)

    def policies(
        self,
        levels: Iterable[Policy],
        kind: str,
        queue: Literal["worker", "central"] = "central",
        index: Literal["rate", "in_flight"] = "rate",
    ) -> Policies:
        """Policies of this group; a level that does not rise above the one before it is left out."""
        rising: list[Policy] = []
        for level in levels:
            if not rising or level.up_to > rising[-1].up_to:
                rising.append(level)
        return Policies(
            self.name,
            tuple(model.name for model in self.models),
            slo_s=self.slo_s,
            workers=self.workers,
            queue=queue,
            index=index,
            levels=tuple(rising),
            late=self.late,
            kind=kind,
            least_s=min(model.latency_s[0] for model in self.models) if self.late == "drop" else 0.0,
        )


def group(
    name: str,
    models: Sequence[ModelProfile],
    *,
    slo_s: float,
    workers: int,
    late: Literal["serve", "drop"] = "serve",
) -> Group:
    """The group with those of `models` that are on the front of accuracy and latency, and answer in time. Raises
    ValueError where none does."""
    useful = tuple(model for model in on_the_front(models) if model.latency_s[0] <= slo_s)
    if not useful:
        least_s = min(model.latency_s[0] for model in models)
        raise ValueError(f"no model answers within {slo_s:g} s; the fastest takes {least_s:g} s")
    return Group(name, useful, slo_s=slo_s, workers=workers, late=late)


def largest_batches(models: Sequence[ModelProfile], slo_s: float, share: float) -> list[int]:
    """Largest batch of each model within `share` of the SLO, but at least the one request that is in time at all."""
    return [max(model.largest_batch(share * slo_s), int(model.latency_s[0] <= slo_s)) for model in models]


def one_model(model: ModelProfile, most: int) -> tuple[PolicyRow, ...]:
    """All queued at once, at most `most`."""
    return tuple(PolicyRow((0.0,), (model.name,), (size,)) for size in range(1, max(most, 1) + 1))


def gathered(model: ModelProfile, least: int, most: int) -> tuple[PolicyRow, ...]:
    """A batch once `least` are queued (CascadeServe section 4.5), or once the earliest can wait no longer."""
    rows = []
    for size in range(1, max(most, least) + 1):
        if size >= least:
            rows.append(PolicyRow((0.0,), (model.name,), (min(size, most),)))
        else:
            # By then a request may have joined: what leaves must still be in time.
            leaves_s = model.latency_s[min(least, len(model.latency_s)) - 1]
            rows.append(PolicyRow((0.0, leaves_s), (model.name,) * 2, (size, 0)))
    return tuple(rows)


def by_slack(
    models: Sequence[ModelProfile], caps: Sequence[int], share: float = 1.0, least: int = 1
) -> tuple[PolicyRow, ...]:
    """The most accurate of `models` (least accurate first) whose batch takes at most `share` of the slack; `caps` are
    their largest batches. Without slack the one that answers most a second of so many takes what it can. Fewer than
    `least` wait for more while the fastest with so many has time for them.
    """
    waits_s = min((m.latency_s[least - 1] for m, cap in zip(models, caps, strict=True) if cap >= least))
    rows = []
    for queued in range(1, max(caps) + 1):
        # Not the fastest with a single request: where that carries less than comes, who is late once stays so.
        fastest, takes = max(
            ((model, min(queued, max(cap, 1))) for model, cap in zip(models, caps, strict=True)),
            key=lambda pair: pair[1] / pair[0].latency_s[pair[1] - 1],
        )
        steps = [(0.0, fastest.name, takes)]
        if queued < least:
            steps.append((waits_s / share, fastest.name, 0))
        for model, cap in sorted(
            zip(models, caps, strict=True), key=lambda pair: pair[0].accuracy, reverse=True
        ):
            size = min(queued, cap)
            if size:
                steps.append((model.latency_s[size - 1] / share, model.name, size))
        # From the most accurate down, a model counts only below the slack that a better one asks.
        kept: list[tuple[float, str, int]] = []
        for step in steps[1:]:
            if not kept or step[0] < kept[-1][0]:
                kept.append(step)
        rising = [steps[0], *reversed(kept)]
        slack_s, names, sizes = zip(*rising, strict=True)
        rows.append(PolicyRow(slack_s, names, sizes))
    return tuple(rows)
