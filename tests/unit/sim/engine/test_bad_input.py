"""What no engine could serve is refused up front, with what to write instead."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.cascade.stage import simulate_stage
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.engine.requests import BadRequests
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints
from tests.unit.sim.machines import ints, machine, replica


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ((ints(5, 4), ints(1, 1), ints(1, 1), ints(0, 0)), "arrival_ps[1]"),
        ((ints(-1, 4), ints(1, 1), ints(1, 1), ints(0, 0)), "arrival_ps[0]"),
        ((ints(0, 0), ints(1, 0), ints(1, 1), ints(0, 0)), "input_tokens[1]"),
        ((ints(0, 0), ints(1, 1), ints(0, 1), ints(0, 0)), "output_tokens[0]"),
        ((ints(0, 0), ints(1, 1), ints(1, 1), ints(0, 1)), "cached_tokens[1]"),
        ((ints(0, 0), ints(1, 900), ints(1, 101), ints(0, 0)), "input_tokens + output_tokens[1]"),
        ((ints(0), ints(1, 1), ints(1, 1), ints(0, 0)), "requests"),
        ((np.array([0.5]), ints(1), ints(1), ints(0)), "arrival_ps"),
    ],
)
def test_impossible_requests_are_named(columns: tuple[Ints, Ints, Ints, Ints], where: str) -> None:
    with pytest.raises(BadRequests) as error:
        simulate_replica(machine(), *columns)
    assert error.value.where == where
    assert error.value.instead


def test_a_request_that_just_fits_is_served() -> None:
    run = simulate_replica(machine(kv=1000), ints(0), ints(900), ints(100), ints(0))
    assert run.peak_kv_tokens == 999


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_ps", ints(0, 0, 1)),
        ("token_ps", ints(5)),
        ("token_ps", ints(0, 5, 4)),
        ("sequence_ps", ints(0, 0)),
        ("context_ps", -1),
        ("pair_ps", float("nan")),
        ("block_size", 0),
        ("kv_tokens", 0),
        ("lanes", 0),
        ("max_num_batched_tokens", 3),
    ],
)
def test_tables_that_would_stand_still_or_end_too_soon_are_refused(field: str, value: object) -> None:
    with pytest.raises(BadInput, match=field):
        simulate_replica(replace(machine(), **{field: value}), ints(0), ints(1), ints(1), ints(0))


def test_time_beyond_int64_is_an_error_not_a_wrong_number() -> None:
    century = machine(token_ps=np.full(200, 4 * 10**18, np.int64))
    with pytest.raises(OverflowError, match="106 days"):
        simulate_replica(century, ints(0), ints(1), ints(3), ints(0))


def test_stages_name_what_is_wrong_with_them() -> None:
    columns = ints(0), ints(1), ints(1), ints(0)
    with pytest.raises(BadInput, match="without replicas"):
        simulate_stage([], "round-robin", *columns)
    with pytest.raises(BadInput, match="least-outstanding"):
        simulate_stage([replica()], "fastest", *columns)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="weight"):
        Replica(machine(), 0.0)
