"""Rivals for the same workers: policies solved by load, the ladder by requests in flight, and tables by slack.

Each is made on the traffic that is planned on and played on that of the verdict. A model that is offered need not be
used: where one only takes the time of others, the best is a policy of fewer. So rivals are made of sets of the models
too, those of which a fluid makes the most first, and a set is left out where even a fluid of it is no better than what
was found. Up to `EACH_SET` models that is every set, so that one model more never makes a plan worse; of more models
the sets of one and two, and those without one of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import nlargest
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from cascadia.domain.policy import Policies, Policy
from cascadia.domain.workload import Floats
from cascadia.planner.policies.fluid import concave_front, fluid_bound
from cascadia.planner.policies.in_flight import Sample, in_flight_ladder, worth
from cascadia.planner.policies.mdp import mdp_ladder
from cascadia.planner.policies.played import Outcome, play
from cascadia.planner.policies.tables import Group, by_slack, largest_batches
from cascadia.planner.policies.wanted import Wanted, judged, loads, settling
from cascadia.policy.arrivals import Arrivals, Empirical, Poisson

SEARCHED = 30_000
"""Requests on which borders are searched; the verdict is by all."""
SLOS_OF_A_PART = 10
BATCH_SHARES, SLACK_SHARES, GATHERED = (
    (0.35, 0.5, 0.65, 1.0),
    (0.3, 0.5, 0.7, 1.0),
    (1, 2, 3, 4, 6, 8, 12, 16),
)
"""Settings of tables by slack: shares of the SLO that a batch may take, of the slack, and queues waited for."""
JUDGED = 8
"""Settings of tables by slack that are played on the traffic of the verdict."""
VARIABLE_WORKERS = 4
"""On more workers a part of the queue as a batch never did better (docs/models/policy.md)."""
EACH_SET, SOLVED_FOR = 4, 3
"""Up to so many models are all sets weighed, and policies solved for each. Solving takes most of the time, and of four
models and more it was others that were better with fewer."""
MANY = 12
"""Of more models than these borders and sets are searched among so many that a fluid mixes, evenly spread: each one
more takes as many plays of the traffic again. Policies are solved for all of them."""
NEAR = 0.01
"""Points that a set must promise beyond what was found."""


class Rival(NamedTuple):
    """`group` has the models that sit on each worker, used or not."""

    group: Group
    policies: Policies
    outcome: Outcome


def best_of_each(made: Group, sets: Sequence[Group], wanted: Wanted) -> tuple[Rival, ...]:
    """The best rival of each kind, of `made` and of all `sets` that could do better."""
    found: dict[str, Rival] = {}

    def weigh(group: Group, rivals: Iterable[Policies]) -> None:
        for policies in rivals:
            rival = _judged(made, group, policies, wanted)
            held = found.get(policies.kind)
            if held is None or wanted.merit(rival.outcome) > wanted.merit(held.outcome):
                found[policies.kind] = rival

    parts = _parts(wanted.arrival_s, wanted.slo_s * wanted.rate_rps)
    searched = partial(_searched, parts=parts)
    weigh(made, _solved(made, wanted))
    few = thinned(made)
    weigh(few, searched(few, wanted))
    promised = sorted(((_promise(each, wanted), each) for each in sets), key=lambda pair: -pair[0])
    for rivals in (searched, _solved) if len(made.models) <= SOLVED_FOR else (searched,):
        for promise, each in promised:
            best = max(wanted.merit(rival.outcome) for rival in found.values())
            if promise > (best.worth + NEAR if best.keeps else 0.0):
                weigh(each, rivals(each, wanted))
    return tuple(found.values())


def thinned(made: Group) -> Group:
    """The group with `MANY` models at most."""
    if len(made.models) <= MANY:
        return made
    rate = {model.name: model.carried_rps(made.slo_s) for model in made.models}
    front = concave_front([model for model in made.models if rate[model.name]], rate)
    kept = {front[round(at)].name for at in np.linspace(0, len(front) - 1, MANY)}
    return replace(made, models=tuple(model for model in made.models if model.name in kept))


def sets_of(every: Group) -> list[Group]:
    """Sets of fewer models than all."""
    every = thinned(every)
    count = len(every.models)
    sizes = range(1, count) if count <= EACH_SET else (1, 2, count - 1)
    return [replace(every, models=models) for size in sizes for models in combinations(every.models, size)]


def _promise(made: Group, wanted: Wanted) -> float:
    """Bound on what a policy of these models is worth while it keeps the objective; 0 where none keeps it."""
    bound = fluid_bound(made, wanted.served_rps * (1 - wanted.late_max))
    return 0.0 if bound is None or bound < wanted.right_min else bound


def _solved(made: Group, wanted: Wanted) -> Iterator[Policies]:
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


def _searched(made: Group, wanted: Wanted, parts: tuple[Floats, ...]) -> Iterator[Policies]:
    sample = Sample(parts, (1.0,) * len(parts), min(map(settling, parts)))
    yield in_flight_ladder(made, sample, wanted.late_max, right_min=wanted.right_min)
    yield from _by_slack(made, wanted, parts)


def _by_slack(made: Group, wanted: Wanted, parts: Sequence[Floats]) -> list[Policies]:
    """The best of the simplest: the most accurate model that the earliest's slack, or a share of it, leaves time for,
    at once or when enough have gathered. Where little comes nothing else is needed."""

    def valued(policies: Policies) -> float:
        played = [play(policies, made.models, part, skip=settling(part)) for part in parts]
        return worth(played, [1.0] * len(parts), wanted.late_max, wanted.right_min)

    tables = {}
    shares = SLACK_SHARES if len(made.models) > 1 else (1.0,)
    for batch_share, share, least in product(BATCH_SHARES, shares, GATHERED):
        caps = largest_batches(made.models, made.slo_s, batch_share)
        if least <= max(caps):
            rows = by_slack(made.models, caps, share, least)
            tables[rows] = made.policies([Policy(made.capacity_rps, rows)], "by-slack")
    return nlargest(JUDGED, tables.values(), key=valued)


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


def _judged(made: Group, used: Group, policies: Policies, wanted: Wanted) -> Rival:
    """All workers keep the models of `made` where those that are `used` are among them: with other traffic other
    policies follow, and no engine is started for it."""
    group = made if set(used.models) <= set(made.models) else used
    policies = replace(policies, models=tuple(model.name for model in group.models))
    return Rival(group, policies, judged(policies, group.models, wanted).outcome)
