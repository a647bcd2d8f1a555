"""Cascades whose stages share requests by rules that are no part of the simulator: played in gears as they are run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.gear import Ladder, Shift
from cascadia_sim.cascade.by_rule import MakeRule
from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.rolling import RollingCascade, VerdictDelays, VerdictTokens
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.errors import BadInput
from tests.examples import examples
from tests.unit.sim.cascade.test_gears import HOLD_S, some_judge, some_routings
from tests.unit.sim.cascade.test_rolling_cascade import asked, random_asked
from tests.unit.sim.machines import ints, machine, small_machines, with_clients

pytestmark = pytest.mark.slow

RULES = st.sampled_from(["fewest", "one each", None])


class Fewest:
    """The replica with the fewest in hand; of equals the last one, or by parity of what ended last."""

    def __init__(self, replicas: int) -> None:
        self.in_hand = [0] * replicas
        self.last = 0

    def choose(self, request: int, input_tokens: int, now_s: float) -> int:
        least = min(self.in_hand)
        among = [at for at, here in enumerate(self.in_hand) if here == least]
        at = among[-1 if self.last % 2 else 0]
        self.in_hand[at] += 1
        return at

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        self.in_hand[replica] -= 1
        self.last = output_tokens


class OneEach:
    """Keeps requests until a replica has none; the shortest begins. Looks again, for nothing, a little later."""

    def __init__(self, replicas: int) -> None:
        self.idle = [True] * replicas
        self.kept: list[tuple[int, int]] = []
        self.again_s = np.inf
        self.looks: list[float] = []

    @property
    def waits(self) -> bool:
        return bool(self.kept)

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        self.kept.append((input_tokens, request))

    def placed(self, now_s: float) -> Sequence[tuple[int, int]]:
        self.looks.append(now_s)
        self.again_s = now_s + 5e-10
        begun = []
        for at in [at for at, idle in enumerate(self.idle) if idle]:
            if self.kept:
                self.kept.sort()
                begun.append((self.kept.pop(0)[1], at))
                self.idle[at] = False
        return begun

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        self.idle[replica] = True


def maker(kind: str | None, replicas: int) -> MakeRule | None:
    return {"fewest": lambda: Fewest(replicas), "one each": lambda: OneEach(replicas), None: None}[kind]


@settings(max_examples=examples(80))
@given(st.integers(0, 2**32), st.integers(1, 30), st.tuples(RULES, RULES, RULES), st.booleans())
def test_one_gear_by_rules_is_the_cascade(
    seed: int, n: int, kinds: tuple[str | None, ...], hosted: bool
) -> None:
    """Also where gates share a judge on GPUs, so that all is simulated in step. No two arrive at once."""
    rng = np.random.default_rng(seed)
    requests = random_asked(rng, n, 3)
    requests = replace(requests, arrival_ps=requests.arrival_ps + 7 * np.arange(n, dtype=np.int64))
    machines, accept = with_clients(rng, small_machines(rng)), rng.random((3, n)) < 0.5
    sizes = rng.integers(1, 4, 3).tolist()
    groups = [tuple(Replica(machines[rng.integers(3)]) for _ in range(size)) for size in sizes]
    rules = [maker(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    stages = [
        CascadeStage(groups[s], requests.input_tokens[s], requests.output_tokens[s], ints(*[0] * n), accept[s],
                     rule=rules[s])
        for s in range(3)
    ]  # fmt: skip
    delays = VerdictDelays(rng.integers(0, 4_000, (3, n)))
    judge = JudgeStage((Replica(machine(kv=80)),), prompt_tokens=3, output_tokens=2)
    whole = simulate_cascade(
        stages, judge if hosted else JudgeStage(latency_ps=delays.latency_ps), requests.arrival_ps
    )
    cascade = RollingCascade(requests, VerdictTokens(3, 2) if hosted else delays, rules=rules)
    for group, replicas in enumerate(groups):
        for one in replicas:
            cascade.open(group, one.timing)
    if hosted:
        cascade.open(3, machine(kv=80))
    cascade.route((0, 1, 2), accept)
    for pause_ps in np.sort(rng.integers(0, int(whole.finish_ps.max()) + 1, 3)):
        cascade.advance(int(pause_ps))
    cascade.finish()
    assert cascade.answers().finish_ps.tolist() == whole.finish_ps.tolist()
    assert cascade.answers().by.tolist() == whole.answered_by.tolist()
    for visits in whole.stages:
        # Who waits for a replica came to the stage before it began there.
        assert (visits.arrival_ps >= requests.arrival_ps[visits.requests]).all()
        if visits.stage == 0:
            assert visits.arrival_ps.tolist() == requests.arrival_ps[visits.requests].tolist()


@settings(max_examples=examples(80))
@given(st.integers(0, 2**32), st.integers(1, 40), st.tuples(RULES, RULES))
def test_gears_are_chosen_as_the_router_does_where_stages_have_rules(
    seed: int, n: int, kinds: tuple[str | None, ...]
) -> None:
    rng = np.random.default_rng(seed)
    requests, judge = random_asked(rng, n, 2), some_judge(rng, n)
    machines = with_clients(rng, small_machines(rng))
    sizes = rng.integers(1, 4, 2).tolist()
    rules = [maker(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    cascade = RollingCascade(requests, judge, rules=rules)
    for group, size in enumerate([*sizes, 1] if isinstance(judge, VerdictTokens) else sizes):
        for _ in range(size):
            cascade.open(group, machines[rng.integers(3)])
    borders = np.sort(rng.choice(8, 2, replace=False) + 0.5).tolist()
    cascade.shift(some_routings(rng, n), borders, hold_s=HOLD_S)
    cascade.finish()
    finish_ps = cascade.answers().finish_ps
    assert (finish_ps >= requests.arrival_ps).all()
    shift = Shift(Ladder(tuple(borders)), hold_s=HOLD_S)
    for i, now_ps in enumerate(requests.arrival_ps):
        under_way = int((finish_ps[:i] >= now_ps).sum())
        assert cascade.gears[i] == shift.arrival(under_way, float(now_ps) * 1e-12)


def test_a_rule_that_keeps_requests_is_asked_only_while_it_does_so() -> None:
    """One replica, two requests: the second is kept until the first has ended."""
    rule = OneEach(1)
    cascade = RollingCascade(asked(ints(0, 100), 1), None, rules=[lambda: rule])
    cascade.open(0, machine())
    cascade.route((0,), np.zeros((1, 2), bool))
    cascade.finish()
    assert cascade.answers().finish_ps.tolist() == [2_011, 4_022]
    assert rule.looks[:2] == [0.0, 1e-10]
    assert rule.looks[-1] == 2_011e-12
    assert np.diff(rule.looks).min() > 0


def test_replicas_of_a_rule_neither_come_nor_go_once_time_has_begun() -> None:
    cascade = RollingCascade(asked(ints(0), 1), None, rules=[lambda: Fewest(2)])
    for _ in range(2):
        cascade.open(0, machine())
    cascade.route((0,), np.zeros((1, 1), bool))
    cascade.advance(10)
    with pytest.raises(BadInput, match="a rule of its own"):
        cascade.open(0, machine())
    with pytest.raises(BadInput, match="a rule of its own"):
        cascade.close(1)
