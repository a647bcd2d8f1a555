"""The earliest finish: what is learnt, and who is chosen by it."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import ENOUGH, SPARE, EarliestFinish, Trial
from cascadia.dispatch.latency_model import NOTHING_KNOWN, Coefficients, LatencyModel, Seen, load_of
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.output_length import CELLS, ENOUGH_TOLD, FEWEST, KEPT, TOLD_ANEW, OutputLength
from cascadia.dispatch.simulated import Known, Simulated
from cascadia_sim.cascade.stage import Replica, simulate_stage
from tests.unit.sim.machines import machine

FAST = Coefficients(0.05, 1e-5, 0.01, 1e-4)
SLOW = Coefficients(0.1, 3e-5, 0.03, 3e-4)


def known(*kinds: str) -> list[Known]:
    return [Known(f"{i}", kind) for i, kind in enumerate(kinds)]


def told(tokens: int) -> OutputLength:
    """Answers are known to have so many tokens."""
    length = OutputLength(tells=True)
    for _ in range(FEWEST):
        length.seen(100, tokens)
    return length


def seeded(tokens: int = 100) -> EarliestFinish:
    models = {"fast": LatencyModel(FAST, seeded=True), "slow": LatencyModel(SLOW, seeded=True)}
    return EarliestFinish(models, told(tokens))


@pytest.mark.parametrize("start", [NOTHING_KNOWN, FAST])
def test_a_model_finds_the_coefficients_that_answers_come_from(start: Coefficients) -> None:
    rng = np.random.default_rng(0)
    truth, model = LatencyModel(SLOW), LatencyModel(start)
    for _ in range(3000):
        seen = Seen(int(rng.integers(10, 4000)), float(rng.integers(0, 64)))
        output = int(rng.integers(20, 600))
        model.took(seen, output, truth.seconds(seen, output) * float(rng.normal(1, 0.02)))
    for seen, output in ((Seen(50, 0.0), 400), (Seen(3000, 50.0), 30), (Seen(500, 20.0), 200)):
        assert model.seconds(seen, output) == pytest.approx(truth.seconds(seen, output), rel=0.1)
    assert model.error < 0.1


def test_a_plans_model_goes_after_replicas_that_have_become_slower_and_takes_its_time() -> None:
    rng = np.random.default_rng(1)
    model = LatencyModel(FAST, seeded=True)
    for factor in (1.0, 1.5):
        for _ in range(20_000):
            seen = Seen(int(rng.integers(10, 2000)), float(rng.integers(0, 40)))
            model.took(seen, 100, factor * LatencyModel(FAST).seconds(seen, 100))
    seen = Seen(500, 10.0)
    assert 1.2 < model.seconds(seen, 100) / LatencyModel(FAST).seconds(seen, 100) < 1.6


@pytest.mark.parametrize("times", [0.005, 0.1, 2.0])
def test_answers_of_one_length_are_told_right_however_fast_replicas_are(times: float) -> None:
    """They tell but the sum of two coefficients. With the one that fell below zero cut off, a model without a plan told
    twenty times the truth, whatever it saw."""
    rng, model = np.random.default_rng(0), LatencyModel()
    for _ in range(400):
        tokens = int(rng.integers(10, 1000))
        model.took(Seen(tokens, 0.0), 1, times * (0.2 + 4e-4 * tokens))
    for tokens in (10, 200, 900):
        assert model.seconds(Seen(tokens, 0.0), 1) == pytest.approx(times * (0.2 + 4e-4 * tokens), rel=0.05)
    assert model.error < 0.1
    assert min(model.coefficients) > 0


@pytest.mark.parametrize("times", [1 / 3, 3.0])
@pytest.mark.parametrize("before", [0, 1000], ids=["from the start", "later"])
def test_replicas_that_are_three_times_another_speed_than_the_plans_are_soon_told_right(
    times: float, before: int
) -> None:
    """Held to a tenth of a miss each, a model was not relied on for ten thousand answers."""
    rng, model = np.random.default_rng(0), LatencyModel(FAST, seeded=True)
    for k in range(before + 600):
        seen, output = (
            Seen(int(rng.integers(10, 3000)), float(rng.integers(0, 60))),
            int(rng.integers(5, 500)),
        )
        speed = times if k >= before else 1.0
        model.took(seen, output, speed * LatencyModel(FAST).seconds(seen, output) * rng.lognormal(0, 0.1))
    assert model.error < 0.15


def test_lengths_are_told_by_what_is_read_and_by_the_limit_of_the_request() -> None:
    rng, length = np.random.default_rng(0), OutputLength()
    for _ in range(1000):
        length.seen(int(rng.integers(50, 100)), int(rng.integers(10, 20)))
        length.seen(int(rng.integers(1000, 1100)), int(rng.integers(390, 410)))
    assert length.expected(70).mean == pytest.approx(14.5, abs=1)
    assert length.expected(1050).mean == pytest.approx(400, abs=2)
    assert length.expected(70).high <= 19
    assert length.expected(1050, most=100) == (100, 100)
    assert 1000 <= length.largest.tokens <= 1100


@pytest.mark.parametrize("prompts", [(20,), (20, 900)])
def test_answers_to_prompts_of_one_length_are_told_by_the_mean_of_them_all(prompts: tuple[int, ...]) -> None:
    length = OutputLength()
    for k in range(1000):
        length.seen(prompts[k % len(prompts)], (8, 64, 512)[k % 3])
    for tokens in prompts:
        assert length.expected(tokens).mean == pytest.approx((8 + 64 + 512) / 3, rel=0.02)
        assert length.expected(tokens).high == 512


def test_short_answers_go_to_slow_replicas_and_long_ones_to_those_that_finish_in_time() -> None:
    replicas = known("fast", "slow")
    replicas[0].count(90, 30_000)
    wanted_s = SPARE * LatencyModel(FAST).seconds(Seen(100, replicas[0].load), 500) * 1.1
    assert seeded(20).choose(replicas, Asked(100, left_s=wanted_s)) == 1
    assert seeded(500).choose(replicas, Asked(100, left_s=wanted_s)) == 0
    assert seeded(500).choose(replicas, Asked(100, most_output=20, left_s=wanted_s)) == 1


def test_without_a_deadline_the_first_to_finish_is_taken() -> None:
    replicas = known("slow", "fast")
    assert seeded().choose(replicas, Asked(100)) == 1
    replicas[1].count(400, 40_000)
    assert seeded().choose(replicas, Asked(100)) == 0


def test_where_nobody_keeps_the_deadline_the_first_to_finish_is_taken() -> None:
    assert seeded(500).choose(known("slow", "fast"), Asked(100, left_s=0.5)) == 1


def test_equal_replicas_are_taken_in_turn() -> None:
    rule, replicas = seeded(), known("fast", "fast", "fast")
    assert [rule.choose(replicas, Asked(100)) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    replicas[1].count(1, 300)
    assert [rule.choose(replicas, Asked(100)) for _ in range(4)] == [0, 2, 0, 2]


def test_the_least_outstanding_serves_until_enough_is_known_and_when_predictions_err() -> None:
    rule = EarliestFinish(length=told(100))
    replicas = known("fast", "slow")
    assert not rule.relied
    rule.choose(replicas, Asked(100))
    for kind, coefficients in (("fast", FAST), ("slow", SLOW)):
        assert not rule.relied
        for k in range(ENOUGH):
            seen = Seen(100 + k, float(k % 7))
            rule.ended(Trial(kind, seen, 100), 100, LatencyModel(coefficients).seconds(seen, 100))
    assert rule.relied
    for k in range(300):
        rule.ended(Trial("slow", Seen(100, 3.0), 100), 100, 60.0 if k % 3 else 0.01)
    assert not rule.relied


def learnt(wrote: Callable[[int], int], answers: int = 3000) -> EarliestFinish:
    """After so many requests, which read 10 tokens or 1,000 in turn and wrote as `wrote` has it."""
    rule, replicas = seeded(), known("fast", "slow")
    rule.choose(replicas, Asked(100))
    for k in range(answers):
        trial = rule.given(replicas[k % 2], Asked(1000 if k % 2 else 10))
        output = wrote(k)
        rule.ended(trial, output, LatencyModel(SLOW if k % 2 else FAST).seconds(trial.seen, output))
    return rule


@pytest.mark.parametrize(
    ("wrote", "explained", "relied"),
    [
        pytest.param(lambda k: 400 if k % 2 else 20, 1.0, True, id="prompts tell lengths"),
        pytest.param(lambda k: 400 if k // 2 % 2 else 20, 0.0, False, id="prompts tell nothing of lengths"),
        pytest.param(lambda k: 200 + 40 * (k // 2 % 2), 0.0, True, id="lengths hardly differ"),
        pytest.param(lambda k: 1 + k // 2 % 2, 0.0, False, id="one word or two, and prompts tell nothing"),
    ],
)
def test_lengths_are_gone_by_while_enough_of_them_is_told(
    wrote: Callable[[int], int], explained: float, relied: bool
) -> None:
    rule = learnt(wrote)
    assert rule.length.explained == pytest.approx(explained, abs=0.1)
    assert rule.relied == relied
    slow_and_loaded = known("fast", "slow")
    slow_and_loaded[1].count(1, 100)
    # By work in hand the slow one is next; by the times foreseen the fast one is still done first.
    slow_and_loaded[0].count(2, 150)
    assert rule.choose(slow_and_loaded, Asked(1000)) == (0 if relied else 1)


def test_lengths_are_gone_by_again_once_prompts_tell_them() -> None:
    rule = learnt(lambda k: 400 if k // 2 % 2 else 20)
    assert not rule.relied
    for k in range(KEPT + TOLD_ANEW):
        rule.length.seen(1000 if k % 2 else 10, 400 if k % 2 else 20)
    assert rule.relied


def test_lengths_are_not_gone_by_before_it_is_known_that_they_are_told() -> None:
    length, answers = OutputLength(), 0
    while not length.tells:
        length.seen(1000 if answers % 2 else 10, 400 if answers % 2 else 20)
        answers += 1
    assert answers >= FEWEST * CELLS // 2 + ENOUGH_TOLD
    assert answers < 2 * FEWEST * CELLS


@pytest.mark.parametrize(
    ("second", "told"),
    [
        pytest.param(SLOW, False, id="prompts tell nothing of lengths"),
        pytest.param(Coefficients(*(1.7 * part for part in FAST)), True, id="kinds hardly differ"),
    ],
)
def test_where_nothing_is_foreseen_choices_are_those_of_the_least_outstanding_by_the_mean_of_all(
    second: Coefficients, told: bool
) -> None:
    rng, plain, length = np.random.default_rng(2), LeastOutstanding(), AnswerLength()
    lines = {"fast": FAST, "slow": second}
    models = {kind: LatencyModel(line, seeded=True) for kind, line in lines.items()}
    rule = EarliestFinish(models, OutputLength(tells=told))
    replicas, others, running = known("fast", "slow", "fast"), known("fast", "slow", "fast"), []
    for _ in range(2000):
        asked = Asked(int(rng.integers(1, 900)))
        wrote = 1 + asked.tokens // 2 if told else int(rng.integers(1, 900))
        chosen, tokens = rule.choose(replicas, asked), asked.tokens + length.expected()
        assert chosen == plain.choose(others, tokens)
        trial = rule.given(replicas[chosen], asked)
        assert trial.tokens == tokens
        replicas[chosen].count(1, trial.tokens)
        others[chosen].count(1, tokens)
        running.append((chosen, trial, wrote))
        if len(running) > 40:
            at, trial, wrote = running.pop(int(rng.integers(40)))
            replicas[at].count(-1, -trial.tokens)
            others[at].count(-1, -trial.tokens)
            length.seen(wrote)
            rule.ended(trial, wrote, LatencyModel(lines[trial.kind]).seconds(trial.seen, wrote))
    assert rule.length.tells == told


def test_of_several_answers_what_each_wrote_beside_the_others_is_learnt() -> None:
    """Taken for one long answer, they would have their replica told as slow, and later prompts as wanting more."""
    rng, truth = np.random.default_rng(3), LatencyModel(SLOW)
    rule, (replica,) = EarliestFinish(), known("slow")
    for _ in range(600):
        replica.running, replica.outstanding_tokens = 0, 0
        replica.count(int(rng.integers(0, 20)), 0)
        asked = Asked(int(rng.integers(10, 2000)), answers=int(rng.integers(1, 30)))
        wrote = int(rng.integers(50, 150))
        trial = rule.given(replica, asked)
        taken_s = truth.seconds(Seen(asked.tokens, replica.running + asked.answers - 1), wrote)
        rule.ended(trial, asked.answers * wrote, taken_s)
    assert rule.length.expected(1000).mean == pytest.approx(100, rel=0.2)
    for seen in (Seen(100, 0.0), Seen(100, 40.0), Seen(1500, 10.0)):
        assert rule.model("slow").seconds(seen, 100) == pytest.approx(truth.seconds(seen, 100), rel=0.01)


def test_an_answer_is_written_beside_all_others_but_itself() -> None:
    rule, (idle,) = EarliestFinish(), known("fast")
    assert [rule.given(idle, Asked(100, answers=n)).seen.load for n in (1, 4)] == [0, 3]


def test_where_most_answers_are_empty_the_others_count_all_the_same() -> None:
    length = OutputLength()
    for k in range(200):
        length.seen(100, 0 if k % 20 else 50)
    assert length.expected(100).mean > 0


def test_answers_of_a_single_replica_among_which_nothing_was_chosen_are_learnt_from() -> None:
    rule, (only,) = EarliestFinish(), known("fast")
    for _ in range(2 * ENOUGH):
        rule.ended(rule.given(only, Asked(100)), 100, 1.0)
    assert rule.model("fast").answers == 2 * ENOUGH
    assert not rule.relied


def test_replicas_that_come_and_go_are_seen() -> None:
    rule, replicas = seeded(), known("slow", "fast", "slow")
    assert rule.choose(replicas, Asked(100)) == 1
    assert rule.choose([replicas[0], replicas[2]], Asked(100)) in (0, 1)
    assert rule.choose([replicas[2], replicas[1]], Asked(100)) == 1


def test_the_simulator_asks_the_routers_own_code_and_tells_it_what_ended() -> None:
    """Long answers meet a deadline on fast replicas only; simulated, they go there once that is learnt."""
    n = 600
    fast, slow = machine(), machine(token_ps=np.arange(4_000, 4_300, dtype=np.int64))
    rule = Simulated(EarliestFinish(), known("fast", "slow"), latency_max_s=inf)
    arrival_ps = np.arange(n) * 10_000
    read, wrote = np.full(n, 50), np.where(np.arange(n) % 2, 5, 40)
    run = simulate_stage(
        [Replica(fast), Replica(slow)], "least-outstanding", arrival_ps, read, wrote, np.zeros(n, np.int64),
        rule=rule,
    )  # fmt: skip
    assert rule.rule.models["fast"].answers + rule.rule.models["slow"].answers > 0.9 * n
    assert (run.finish_ps > arrival_ps).all()
    assert all(
        replica.load == load_of(replica.running, replica.outstanding_tokens) for replica in rule.replicas
    )


def by_trying_all(rule: EarliestFinish, replicas: list[Known], asked: Asked) -> list[float]:
    """C_j L_j of each replica that keeps the deadline (infinite of others); L_j where none does, or none is asked."""
    mean, high = rule.length.expected(asked.tokens, asked.most_output)
    largest = rule.length.largest
    alone_s = {
        name: m.seconds(Seen(largest.tokens, 0.0), largest.output_tokens) for name, m in rule.models.items()
    }
    # Each of its answers is written beside the others.
    seen = [Seen(asked.tokens, r.load + asked.answers - 1) for r in replicas]
    took_s = [rule.model(r.kind).seconds(s, mean) for r, s in zip(replicas, seen, strict=True)]
    late = [
        SPARE * rule.model(r.kind).seconds(s, high) > asked.left_s
        for r, s in zip(replicas, seen, strict=True)
    ]
    if asked.left_s == inf or all(late):
        return took_s
    worth = [(min(alone_s.values()) / alone_s[r.kind]) ** 0.5 for r in replicas]
    return [inf if out else w * s for w, s, out in zip(worth, took_s, late, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_that_of_trying_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = {
        "fast": FAST,
        "middle": Coefficients(0.08, 2e-5, 0.018, 2e-4),
        "late to begin": Coefficients(0.9, 1e-3, 0.008, 2e-4),
        "slow": SLOW,
    }
    rule = EarliestFinish({kind: LatencyModel(line, seeded=True) for kind, line in lines.items()})
    rule.length.tells = True
    for _ in range(FEWEST):
        for tokens, wrote in ((20, 15), (20, 45), (700, 200), (700, 420)):
            rule.length.seen(tokens, wrote)
    rule.length.tells = True
    replicas = known(*rng.choice(list(lines), 7).tolist(), *lines)
    for _ in range(60):
        for replica in replicas:
            replica.running, replica.outstanding_tokens = 0, 0
            replica.count(int(rng.integers(0, 60)), int(rng.integers(0, 40_000)))
        left_s = float(rng.choice([inf, rng.uniform(0.2, 12.0)]))
        answers = int(rng.choice([1, 2, 60]))
        asked = Asked(int(rng.integers(5, 900)), int(rng.integers(10, 900)), None, left_s, answers)
        costs = by_trying_all(rule, replicas, asked)
        assert costs[rule.choose(replicas, asked)] == pytest.approx(min(costs))
    assert rule.relied


def test_a_request_counts_for_what_it_reads_and_the_answer_that_is_likely() -> None:
    rule = EarliestFinish()
    assert [rule.tokens(Asked(100)), rule.tokens(Asked(100, 20)), rule.tokens(Asked(0, 999))] == [
        356,
        120,
        256,
    ]
    trial = rule.given(Known("a", "fast"), Asked(100, 20))
    assert (trial.tokens, trial.most_output) == (120, 20)


def test_a_mean_of_answers_that_nobody_asked_for_meanwhile_fades_all_the_same() -> None:
    """2,001 answers are halved when the next is asked for, so a thousand others weigh as much."""
    length = AnswerLength()
    for _ in range(2000):
        length.seen(100)
    assert length.expected() == 100
    for _ in range(1000):
        length.seen(300)
    assert length.expected() == 200
