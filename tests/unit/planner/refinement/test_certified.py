"""Who is asked for a certificate, and in which order: by candidates whose certificates are told beforehand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from cascadia.domain.deadline import Deadline
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Stability
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.refinement.certified import IN_RANK, first_certified
from cascadia.planner.refinement.state import Candidate, Refinement
from cascadia.planner.stability.certificate import Certificate
from tests.unit.planner.instances import shape
from tests.unit.planner.problems import SMALL, problem

BOUND_S = 10.0
PROBLEM = replace(problem((SMALL,)), objective=Objective("cost", 0.95, 0.0, BOUND_S))


@dataclass
class Told:
    """State of a refinement whose certificates are known: by price, what the repeats reach, or None where the candidate
    does not hold. `asked` are the prices that were asked for, in order."""

    repeated_s: dict[float, float | None]
    asked: list[float] = field(default_factory=list)
    seen: dict[object, Candidate] = field(default_factory=dict)
    search: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(problem=PROBLEM, deadline=Deadline())
    )

    def certified(self, c: Candidate) -> Candidate:
        self.asked.append(c.usd_per_hour)
        reached_s = self.repeated_s[c.usd_per_hour]
        stability = Stability(
            8,
            1,
            c.latency_s,
            p95_repeated_s=reached_s or 0.0,
            objective_once_s=c.latency_s,
            objective_repeated_s=reached_s or 0.0,
            backlog_first=0.0,
            backlog_last=0.0,
        )
        made = SimpleNamespace(holds=reached_s is not None, stability=stability, levels_repeated_s=())
        return replace(c, certificate=cast(Certificate, made))

    def certify_together(self, candidates: Iterable[Candidate]) -> None:
        """One after the other is as well."""

    def simulate(self, deployments: Iterable[object]) -> list[Candidate]:
        return []


def candidate(usd: float, latency_s: float = 5.0, load: float = 0.5) -> Candidate:
    made = deployment(0, {0: (Replicas(shape(1, usd_per_gpu=usd), 1, 1.0),)})
    return Candidate(made, latency_s, 100.0, load)


def first(state: Told, candidates: Sequence[Candidate]) -> float | None:
    found = first_certified(cast(Refinement, state), candidates)
    return None if found is None else found.usd_per_hour


@pytest.mark.parametrize("refused", [0, 1, 7, IN_RANK - 1])
def test_the_cheapest_that_holds_is_found_behind_those_that_do_not(refused: int) -> None:
    every = [candidate(float(usd)) for usd in range(1, refused + 4)]
    state = Told({c.usd_per_hour: (6.0 if c.usd_per_hour > refused else None) for c in every})
    assert first(state, every[::-1]) == refused + 1
    assert state.asked == [float(usd) for usd in range(1, refused + 2)]


def test_behind_many_that_do_not_hold_only_those_with_more_room_are_asked_in_rank() -> None:
    likely = [candidate(float(usd), load=0.9) for usd in range(1, IN_RANK + 1)]
    twin, roomier = candidate(50.0, load=0.95), candidate(60.0, load=0.6)
    every = [*likely, twin, roomier]
    state = Told({c.usd_per_hour: None for c in every} | {50.0: 6.0, 60.0: 6.0})
    assert first(state, every) == 60.0
    assert 50.0 not in state.asked


def test_who_would_not_keep_the_bound_if_the_repeats_slowed_it_as_little_as_any_is_passed_over() -> None:
    """The first two keep 10 s on one round, and take 1.3 and 1.35 times as long when the trace goes on."""
    every = [candidate(1.0, 9.0), candidate(2.0, 7.6), candidate(3.0, 8.2), candidate(4.0, 7.5)]
    state = Told({1.0: 9.0 * 1.3, 2.0: 7.6 * 1.35, 3.0: 8.2, 4.0: 7.5})
    assert first(state, every) == 4.0
    assert state.asked == [1.0, 2.0, 4.0]
