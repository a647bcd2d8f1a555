"""A move must gain more than it costs, rarely, and only onto GPUs that are there."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.decide import Caution, Effort, Outlook, Situation, decide, expected_s

GPUS = {"h100": 8}
HOUR_S = 3600.0


def outlook(loss: float, *, keeps_bounds: bool = True, gpus: int = 8) -> Outlook:
    return Outlook(loss, keeps_bounds, {"h100": gpus})


def situation(**changes: object) -> Situation:
    plain = Situation(
        now_s=10 * HOUR_S,
        today=outlook(10.0),
        candidate=outlook(5.0),
        effort=Effort(duration_s=300.0, gpu_s=1200.0, starts=2, stops=2),
        gpus=GPUS,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_half_the_latency_for_an_hour_pays_for_five_minutes_of_loading() -> None:
    decision = decide(situation())
    assert decision.action == "move"
    assert decision.gain == pytest.approx(0.5)
    assert decision.benefit_s == pytest.approx(0.5 * 3300)
    assert decision.cost_s == pytest.approx(1200 / 8)
    assert str(decision) == "move: p95 5 s instead of 10 s, 50 % better; 2 start and 2 stop in 5 min"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidate": outlook(9.5)}, "5 % is less than the 10 % asked after 0 moves"),
        ({"candidate": outlook(11.0)}, "0 % is less than"),
        ({"effort": Effort(3000.0, 8 * 3000.0, 0.5, 8, 8)}, "does not pay for 8 start and 8 stop in 50 min, 50 %"),
        ({"moved_at_s": [9.8 * HOUR_S]}, "the last move was 12 min ago"),
        ({"same": True}, "today's plan is the best found"),
        ({"effort": None, "blocked": "give 1 surge GPU"}, "but give 1 surge GPU"),
        ({"candidate": outlook(1.0, gpus=9)}, "takes 9 GPUs of h100, and there are 8"),
        ({"candidate": outlook(1.0, keeps_bounds=False)}, "the new plan breaks its bounds"),
        ({"moved_at_s": [h * HOUR_S for h in range(6)]}, "6 moves in a day are enough"),
    ],
)  # fmt: skip
def test_else_it_keeps_todays_plan_and_says_why(changes: dict[str, object], said: str) -> None:
    decision = decide(situation(**changes))
    assert decision.action == "keep"
    assert said in str(decision)
    assert "\n" not in str(decision)


def test_start_up_times_decide_between_equal_gains() -> None:
    quick, slow = Effort(60.0, 480.0, 1.0, 2, 2), Effort(3000.0, 24_000.0, 1.0, 2, 2)
    assert decide(situation(candidate=outlook(8.0), effort=quick)).action == "move"
    assert decide(situation(candidate=outlook(8.0), effort=slow)).action == "keep"


def test_a_plan_that_breaks_its_bounds_is_left_without_waiting_and_from_the_reserve() -> None:
    moved = [4 * HOUR_S, 5 * HOUR_S, 6 * HOUR_S, 7 * HOUR_S, 8 * HOUR_S, 9.9 * HOUR_S]
    overloaded = situation(moved_at_s=moved, today=outlook(math.inf, keeps_bounds=False))
    assert decide(overloaded).action == "move"
    assert decide(replace(overloaded, moved_at_s=[9 * HOUR_S] * 8)).action == "keep"


def test_a_plan_for_gpus_that_have_gone_is_left() -> None:
    decision = decide(situation(gpus={"h100": 4}, candidate=outlook(12.0, gpus=4)))
    assert decision.action == "move"
    assert "no longer holds" in decision.why


def test_both_broken_the_smaller_loss_wins() -> None:
    broken = situation(today=outlook(40.0, keeps_bounds=False), candidate=outlook(20.0, keeps_bounds=False))
    assert decide(broken).gain == pytest.approx(0.5)


def test_how_long_traffic_stays_is_learnt_from_its_changes() -> None:
    assert expected_s([], 3600.0) == 3600.0
    assert expected_s([0.0, 600.0, 1200.0, 1900.0], 3600.0) == 600.0
    swinging = [h * HOUR_S / 6 for h in range(60)]
    costly = Effort(540.0, 540.0 * 8, 1.0, 8, 8)
    assert decide(situation(effort=costly)).action == "move"
    assert decide(situation(effort=costly, changed_at_s=swinging)).action == "keep"


def a_week(loads: "np.ndarray[tuple[int], np.dtype[np.float64]]", noise: float) -> list[float]:
    """When it moves, where every ten minutes a plan for the load of the moment is offered, as if there were an alarm
    each time. A plan made for load x has p95 1 + 4 |load - x| / x; each simulation errs by `noise`."""
    rng = np.random.default_rng(1)
    made_for, moved = float(loads[0]), []
    for i, load in enumerate(loads.tolist()):
        errors = np.exp(rng.normal(0.0, noise, 2))
        offered = situation(
            now_s=600.0 * i,
            today=outlook((1 + 4 * abs(load - made_for) / made_for) * errors[0]),
            candidate=outlook(errors[1]),
            moved_at_s=list(moved),
        )
        if decide(offered).action == "move":
            made_for = load
            moved.append(600.0 * i)
    return moved


def test_on_a_stationary_load_it_never_moves() -> None:
    """Both plans are simulated on the same requests: they err alike, by less than a percent between equals."""
    assert a_week(np.full(7 * 144, 6.0), noise=0.01) == []


def test_even_where_simulations_err_widely_a_stationary_load_costs_few_moves_a_day() -> None:
    moved = a_week(np.full(7 * 144, 6.0), noise=0.05)
    assert len(moved) <= 7 * (Caution().free_moves + 1)


@pytest.mark.parametrize("period_h", [0.5, 1, 2, 6, 24])
def test_on_a_periodic_load_no_day_has_more_moves_than_its_budget(period_h: float) -> None:
    hours = np.arange(7 * 144) / 6
    moved = a_week(6.0 + 4.0 * np.sign(np.sin(2 * np.pi * hours / period_h + 1e-9)), noise=0.01)
    budget = Caution().moves_per_day - Caution().reserve
    for at_s in moved:
        assert sum(at_s - 24 * HOUR_S < other_s <= at_s for other_s in moved) <= budget


def test_a_change_that_lasts_is_followed_at_once() -> None:
    loads = np.where(np.arange(7 * 144) < 300, 6.0, 12.0)
    assert a_week(loads, noise=0.01) == [600.0 * 300]


def test_a_slower_plan_is_no_rescue_where_latency_is_what_is_sought() -> None:
    decision = decide(situation(today=outlook(100.0, keeps_bounds=False), candidate=outlook(500.0)))
    assert decision.action == "keep"
    dearer = replace(outlook(500.0), what="cost", unit="$/h")
    today = replace(outlook(100.0, keeps_bounds=False), what="cost", unit="$/h")
    assert decide(situation(today=today, candidate=dearer)).action == "move"
