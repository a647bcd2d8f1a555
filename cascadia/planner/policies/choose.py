"""Workers and their policies, chosen together: the fewest workers on which a policy keeps the objective.

Three rivals are made for each number of workers: policies solved by load, the ladder by requests in flight, and the
most accurate model that the slack leaves time for. All are played on the traffic, and the best is taken. One kind of
worker serves a group; where there are several, each has its own profiles and its own policies, and the cheapest that
keeps the objective is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from cascadia.domain.errors import Infeasible
from cascadia.domain.policy import WINDOW_S, Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.baselines import greedy
from cascadia.planner.policies.fluid import fluid_bound
from cascadia.planner.policies.in_flight import Sample, in_flight_ladder, worth
from cascadia.planner.policies.mdp import mdp_ladder
from cascadia.planner.policies.played import Outcome, play, worker_kind
from cascadia.planner.policies.residence import Kind, alike, spread_out
from cascadia.planner.policies.sustained import SETTLES
from cascadia.planner.policies.tables import Group, group
from cascadia.policy.arrivals import Arrivals, Empirical, Poisson
from cascadia_sim.batch.simulate import WorkerKind

SEARCHED = 30_000
"""Requests on which borders are searched; the verdict is by all."""
SLOS_OF_A_PART = 10
BUSIEST = 0.999
"""Policies are solved for loads up to this quantile of the traffic's own, and somewhat beyond."""
BEYOND = 1.1
BATCH_SHARES, SLACK_SHARES = (0.35, 0.5, 0.65, 1.0), (0.3, 0.5, 0.7, 1.0)
"""Shares of the SLO that a batch by slack may take, and of the slack."""
VARIABLE_WORKERS = 4
"""On more workers a part of the queue as a batch never did better (docs/models/policy.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Traffic (`arrival_s`, n, not decreasing) and what must hold on it: answers within `slo_s` but for `late_max`
    (0-1), with at least `accuracy_min` (0-100) in the mean; None: as much as all workers give.

    `unseen_s`: further traffic of the same kind, by which policies that were made on the first are judged; None: there
    is no other.
    """

    arrival_s: Floats
    _: KW_ONLY
    slo_s: float
    late_max: float
    accuracy_min: float | None
    late: Literal["serve", "drop"] = "serve"
    variable: bool = False
    """Policies that take a part of the queue are solved for too, on few workers."""
    unseen_s: Floats | None = None

    @property
    def judged_s(self) -> Floats:
        """The traffic of the verdict."""
        return self.arrival_s if self.unseen_s is None else self.unseen_s

    @property
    def rate_rps(self) -> float:
        """Mean rate."""
        return (len(self.judged_s) - 1) / float(self.judged_s[-1] - self.judged_s[0])

    @property
    def served_rps(self) -> float:
        """The least rate at which all can be served in time: what comes at the end has its deadline's time still."""
        return len(self.judged_s) / (float(self.judged_s[-1] - self.judged_s[0]) + self.slo_s)

    @property
    def skip(self) -> int:
        """Requests at the start of the verdict that are not counted."""
        return settling(self.judged_s)


def settling(arrival_s: Floats) -> int:
    """Requests at the start that are not counted, while the count of the load fills: it is short for a window."""
    fills = int(np.searchsorted(arrival_s, arrival_s[0] + WINDOW_S))
    return min(max(SETTLES, fills), len(arrival_s) // 10)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Policies of the workers of `kind`, what became of the traffic under them, and under the `rivals` of the same
    workers. `bound` is the accuracy that nothing passes with these models on every worker.

    `sits` (workers): models on each. Where they differ, `further` are the policies of the workers with other models
    than the first has; all are dealt to in turn.
    """

    kind: Kind
    group: Group
    policies: Policies
    outcome: Outcome
    rivals: tuple[tuple[Policies, Outcome], ...]
    bound: float | None
    sits: tuple[tuple[str, ...], ...]
    further: tuple[Policies, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        return self.group.workers * self.kind.usd_per_hour


def choose(name: str, kinds: Sequence[Kind], wanted: Wanted) -> Chosen:
    """The cheapest workers that keep the objective, then the fewest; raises `Infeasible` where none do."""
    found = [least for kind in kinds if (least := _fewest(name, kind, wanted)) is not None]
    if not found:
        raise _infeasible(name, kinds, wanted)
    return min(found, key=lambda chosen: (chosen.usd_per_hour, chosen.group.workers, -chosen.outcome.reward))


def on_workers(name: str, kind: Kind, workers: int, wanted: Wanted) -> Chosen | None:
    """The better of the rivals on so many workers; None where no model is in time, or fits."""
    try:
        every = group(name, kind.models, slo_s=wanted.slo_s, workers=workers, late=wanted.late)
    except ValueError:
        return None
    made = every if kind.holds_all else alike(every, kind, loads(wanted.arrival_s))
    if made is None:
        return None
    rivals = tuple((policies, _play(policies, made, wanted)) for policies in _rivals(made, wanted))
    policies, outcome = max(rivals, key=lambda rival: worth([rival[1]], [1.0], wanted.late_max))
    sits = (policies.models,) * workers
    bound = fluid_bound(made, wanted.served_rps)
    chosen = Chosen(kind, made, policies=policies, outcome=outcome, rivals=rivals, bound=bound, sits=sits)
    if kind.holds_all or kind.alike or (spread := spread_out(every, kind, loads(wanted.arrival_s))) is None:
        return chosen
    kinds = _each_its_own(every, spread, wanted)
    played = play(
        kinds[0].policies, every.models, wanted.judged_s, skip=wanted.skip, others=[k.workers for k in kinds]
    )
    rivals = (*rivals, (kinds[0].policies, played))
    if worth([played], [1.0], wanted.late_max) <= worth([outcome], [1.0], wanted.late_max):
        return replace(chosen, rivals=rivals)
    return replace(
        chosen, group=every, policies=kinds[0].policies, outcome=played, rivals=rivals,
        bound=fluid_bound(every, wanted.served_rps), sits=tuple(tuple(sorted(here)) for here in spread),
        further=tuple(k.policies for k in kinds[1:]),
    )  # fmt: skip


class _Part(NamedTuple):
    policies: Policies
    workers: WorkerKind


def _each_its_own(every: Group, spread: Sequence[frozenset[str]], wanted: Wanted) -> list[_Part]:
    """Solved policies for each set of models that sits together."""
    from_rps, to_rps = loads(wanted.arrival_s)
    parts = []
    for here in dict.fromkeys(spread):
        part = replace(every, models=tuple(model for model in every.models if model.name in here))
        solved = mdp_ladder(
            part, Poisson(1.0), from_rps=from_rps, to_rps=to_rps, late_max=wanted.late_max, kind="spread"
        )
        # The names of all models, so that all tables count them alike.
        named = replace(solved, models=tuple(model.name for model in every.models))
        parts.append(_Part(named, worker_kind(named, every.models, spread.count(here))))
    return parts


def keeps(outcome: Outcome, wanted: Wanted) -> bool:
    """Tells whether the objective holds."""
    return outcome.late <= wanted.late_max and outcome.accuracy >= (wanted.accuracy_min or 0.0)


def loads(arrival_s: Floats) -> tuple[float, float]:
    """The least and the largest rate worth a policy, counted over the window by which it is looked up."""
    windows = max(int((arrival_s[-1] - arrival_s[0]) / WINDOW_S), 1)
    counts = np.histogram(arrival_s, bins=windows)[0] / WINDOW_S
    mean = len(arrival_s) / (windows * WINDOW_S)
    return max(float(np.quantile(counts, 0.01)), mean / 20), BEYOND * max(
        float(np.quantile(counts, BUSIEST)), mean
    )


def _rivals(made: Group, wanted: Wanted) -> Iterator[Policies]:
    part = wanted.arrival_s[:SEARCHED] if len(wanted.arrival_s) > SEARCHED else wanted.arrival_s
    from_rps, to_rps = loads(wanted.arrival_s)
    tried: list[tuple[str, Arrivals]] = [("mdp", Poisson(1.0)), ("mdp-counted", Empirical(part, 1.0))]
    if wanted.variable and made.workers <= VARIABLE_WORKERS:
        tried.append(("mdp-variable", Poisson(1.0)))
    for kind, law in tried:
        try:
            yield mdp_ladder(
                made, law, from_rps=from_rps, to_rps=to_rps, late_max=wanted.late_max, kind=kind,
                variable=kind == "mdp-variable",
            )  # fmt: skip
        except ValueError:
            # A trace too short to count in says nothing of its law, and the largest batches have too many parts.
            continue
    parts = _parts(wanted.arrival_s, wanted.slo_s * wanted.rate_rps)
    skip = min(map(settling, parts))
    yield in_flight_ladder(made, Sample(parts, (1.0,) * len(parts), skip), wanted.late_max)
    yield _by_slack(made, wanted, parts)


def _by_slack(made: Group, wanted: Wanted, parts: Sequence[Floats]) -> Policies:
    """The best of the simplest: the most accurate model that the earliest's slack, or a share of it, leaves time for.
    Where little comes nothing else is needed."""

    def valued(policies: Policies) -> float:
        played = [play(policies, made.models, part, skip=settling(part)) for part in parts]
        return worth(played, [1.0] * len(parts), wanted.late_max)

    best = max((greedy(made, *shares) for shares in product(BATCH_SHARES, SLACK_SHARES)), key=valued)
    return replace(best, kind="by-slack")


def _parts(arrival_s: Floats, within_slo: float) -> tuple[Floats, ...]:
    """Stretches to search on: a calm one, one at about the median rate, and the busiest. `within_slo`: requests that
    come within the time for an answer, of which each has many, so that a queue that grows is seen."""
    size = max(SEARCHED // 3, round(SLOS_OF_A_PART * min(within_slo, SEARCHED)))
    if len(arrival_s) <= 2 * size:
        return (arrival_s,)
    begins = np.arange(0, len(arrival_s) - size, size // 5)
    # As many requests in each stretch: the longer it takes, the calmer it is.
    calmest_first = begins[np.argsort(arrival_s[begins + size - 1] - arrival_s[begins])[::-1]]
    chosen = [calmest_first[round(at * (len(begins) - 1))] for at in (0.05, 0.5, 1.0)]
    return tuple(arrival_s[begin : begin + size] for begin in chosen)


def _play(policies: Policies, made: Group, wanted: Wanted) -> Outcome:
    return play(policies, made.models, wanted.judged_s, skip=wanted.skip)


def _fewest(name: str, kind: Kind, wanted: Wanted) -> Chosen | None:
    if wanted.accuracy_min is None:
        found = on_workers(name, kind, kind.most, wanted)
        return found if found is not None and keeps(found.outcome, wanted) else None
    high, best = kind.most, on_workers(name, kind, kind.most, wanted)
    if best is None or not keeps(best.outcome, wanted):
        return None
    # No bisection below what the fluid bound rules out: each step solves policies, which takes seconds.
    low = _bound_below(best.group, wanted) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = on_workers(name, kind, middle, wanted)
        if found is not None and keeps(found.outcome, wanted):
            high, best = middle, found
        else:
            low = middle
    return best


def _bound_below(made: Group, wanted: Wanted) -> int:
    """Fewer workers than these cannot keep the objective, whatever they do."""
    served = wanted.served_rps * (1 - wanted.late_max)
    for workers in range(1, made.workers + 1):
        bound = fluid_bound(replace(made, workers=workers), served)
        if bound is not None and bound >= (wanted.accuracy_min or 0.0):
            return workers
    return made.workers


def _infeasible(name: str, kinds: Sequence[Kind], wanted: Wanted) -> Infeasible:
    tried = [found for kind in kinds if (found := on_workers(name, kind, kind.most, wanted)) is not None]
    if not tried:
        least_s = min(model.latency_s[0] for kind in kinds for model in kind.models)
        return Infeasible(
            f"no model of group {name!r} answers within objective.latency_max_s {wanted.slo_s:g}",
            f"the fastest takes {least_s:g} s",
        )
    best = max(tried, key=lambda chosen: worth([chosen.outcome], [1.0], wanted.late_max))
    on = f"{best.group.workers} workers of kind {best.kind.name!r}"
    if best.outcome.late > wanted.late_max:
        return Infeasible(
            f"objective.late_max {wanted.late_max:.2%} of group {name!r}",
            f"{on} are late with {best.outcome.late:.2%}",
        )
    return Infeasible(
        f"objective.quality_min {wanted.accuracy_min:g} of group {name!r}",
        f"{on} reach {best.outcome.accuracy:.2f}",
    )
