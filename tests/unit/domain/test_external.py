"""Stages that are somebody else's API: what they charge, and what a router is told of them."""

from dataclasses import replace

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.domain.prices import price_document, token_costs, token_prices
from cascadia.domain.routed import stages_document
from cascadia.testing.plans import FRONTIER_API, POOLS, plan, stage

ONE = ReplicaGroup("l4", tp=1, pp=1, count=1, share=1.0)


def elsewhere(**changes: object) -> Plan:
    api = replace(FRONTIER_API, **changes)  # type: ignore[arg-type]
    made = plan([stage("small", ONE), stage("gone"), stage("frontier", external=api)], POOLS)
    return replace(made, skip_below=(30.0, 0.0))


def test_tokens_read_and_written_have_prices_of_their_own() -> None:
    assert FRONTIER_API.usd(1e6, 0) == 2.5
    assert FRONTIER_API.usd(0, 2e6) == 20.0
    assert FRONTIER_API.usd(1000, 200) == pytest.approx(0.0045)


def test_a_router_is_told_where_the_api_is_and_by_whose_key_and_limit() -> None:
    told = stages_document(elsewhere(requests_per_minute=90))["stages"]
    assert [each["name"] for each in told] == ["small", "frontier"]
    assert [each["threshold"] for each in told] == [50.0, 0.0]
    assert [each.get("skip_below") for each in told] == [30.0, None]
    at = {"url": "https://api.example.com", "health_path": None}
    assert told[1]["replicas"] == [{**at, "api_key_env": "FRONTIER_KEY", "requests_per_minute": 90}]
    assert "replicas" not in told[0]
    keyless = stages_document(elsewhere(api_key_env=None))["stages"]
    assert keyless[1]["replicas"] == [at]


def test_an_api_that_nobody_says_where_it_is_cannot_be_routed_to() -> None:
    with pytest.raises(BadInput, match="stage frontier: is somebody else's API, and nothing says where"):
        stages_document(elsewhere(base_url=None))


def test_beside_an_api_no_single_price_tells_what_a_token_costs() -> None:
    """The L4's own price is known where the plan says how full it is: $0.80 for 4000 / 0.5 tokens a second."""
    made = elsewhere()
    assert token_costs(made) is None
    assert token_prices(made) == {"frontier": (2.5, 10.0)}
    stages = tuple(replace(one, load=0.5) for one in made.predicted.stages)
    loaded = replace(made, predicted=replace(made.predicted, stages=stages))
    assert token_costs(loaded) is None
    (away,) = (one for one in loaded.predicted.stages if one.name == "frontier")
    only = plan([stage("frontier", external=FRONTIER_API)], POOLS)
    assert token_costs(replace(only, predicted=replace(only.predicted, stages=(away,)))) is None
    small = float(f"{1e6 * 0.8 / (3600 * 8000):.4g}")
    assert token_prices(loaded) == {"small": (small, small), "frontier": (2.5, 10.0)}
    asked = {"usd_per_million_input_tokens": 2.5, "usd_per_million_output_tokens": 10.0}
    assert price_document(loaded, "frontier") == asked
    assert price_document(made, "small") == {}
    assert stages_document(made)["stages"][1].items() >= asked.items()
    own = replace(loaded, stages=loaded.stages[:1])
    assert price_document(own, "small") == {}


def test_every_stage_but_the_last_has_a_threshold() -> None:
    with pytest.raises(ValueError, match="zip"):
        stages_document(replace(elsewhere(), thresholds=(50.0,)))
