"""Prices of a spec that is written anew, beside those that the plan in force was made with."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.controller.decide.prices import GPU_HOUR, INPUT, OUTPUT, SpecPrices, at_prices, moved, prices_of
from cascadia.domain.external import External
from cascadia.domain.plan import Plan
from cascadia.testing.plans import three_stages
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec

API = External(3.0, 15.0, ttft_p50_s=0.3, ttft_p95_s=0.9, tpot_p50_s=0.02, tpot_p95_s=0.04)


def elsewhere() -> Plan:
    plan = three_stages()
    return replace(plan, stages=(*plan.stages[:-1], replace(plan.stages[-1], external=API)))


def test_a_plan_at_other_prices_differs_in_these_alone() -> None:
    plan = elsewhere()
    pool = plan.cluster.pools[0].name
    dear = {(pool, GPU_HOUR): 9.0, ("large", INPUT): 6.0}
    found = at_prices(plan, dear)
    assert found.cluster.pool(pool).usd_per_gpu_hour == 9.0
    assert found.stages[-1].external == replace(API, usd_per_million_input_tokens=6.0)
    assert at_prices(found, prices_of(plan)) == plan


def test_it_says_what_moved_and_leaves_out_what_hardly_did() -> None:
    before = prices_of(elsewhere())
    (pool, _), usd = next((key, usd) for key, usd in before.items() if key[1] == GPU_HOUR)
    assert moved(before, before) == ""
    assert moved(before, {key: 1.04 * usd for key, usd in before.items()}) == ""
    assert moved(before, {**before, (pool, GPU_HOUR): 2 * usd, ("large", INPUT): 1.5}) == (
        f"{pool} costs {2 * usd:g} $ a GPU-hour instead of {usd:g};"
        " large costs 1.5 $ a million tokens in instead of 3"
    )


def test_a_spec_is_read_when_it_was_written_and_not_else(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    path = write_spec(tmp_path, valid_spec())
    prices = SpecPrices(path)
    first = prices.fresh()
    assert first is not None
    assert prices.fresh() is None
    dear = valid_spec()
    dear["cluster"]["pools"][0]["usd_per_gpu_hour"] = 77.0
    write_spec(tmp_path, dear)
    second = prices.fresh()
    assert second is not None
    assert "costs 77 $ a GPU-hour" in moved(first, second)


@pytest.mark.parametrize("text", ["stages: [", "stages: []"])
def test_a_spec_that_makes_no_sense_tells_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cascade.yaml"
    assert SpecPrices(path).fresh() is None
    path.write_text(text)
    assert SpecPrices(path).fresh() is None


def test_tokens_of_stages_and_of_the_judge_have_prices_in_a_spec_too(tmp_path: Path) -> None:
    spec = valid_spec()
    priced = {"usd_per_million_input_tokens": 3.0, "usd_per_million_output_tokens": 15.0}
    times = {"ttft_s": 0.3, "tpot_s": 0.02}
    name = spec["stages"][-1]["name"]
    spec["stages"][-1] = {
        "name": name,
        "model": "frontier",
        "placement": "external",
        "latency": times,
        **priced,
    }
    write_inputs(tmp_path)
    found = SpecPrices(write_spec(tmp_path, spec)).fresh()
    assert found is not None
    assert (found[name, INPUT], found[name, OUTPUT]) == (3.0, 15.0)


def test_a_price_moves_by_more_than_a_twentieth_of_the_larger_either_way() -> None:
    key = ("small", INPUT)
    told = [bool(moved({key: 1.0}, {key: now})) for now in (1.05, 1.06, 0.951, 0.94)]
    assert told == [False, True, False, True]
    assert moved({key: 1.0}, {}) == moved({}, {key: 1.0}) == ""
