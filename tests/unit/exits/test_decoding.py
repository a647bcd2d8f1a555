"""Exits of tokens pay for a few sequences, and not for many; without any the ramp is all that they cost."""

import pytest

from cascadia.exits.decoding import Batches, Engine, paying, worth
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.breakdown import Iteration
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

ENGINE = Engine(
    architecture("meta-llama/Llama-3.1-8B-Instruct"), gpu("h100-sxm"), 1, EngineConfig(engine="vllm")
)


def test_for_one_sequence_what_is_skipped_is_saved() -> None:
    """Half the tokens skip half the layers: a quarter of the layers' time, less the ramp."""
    found = worth(ENGINE, 1, 1000, depth=0.5, share=0.5)
    layers = ENGINE.seconds(Iteration(1, 1000)) - ENGINE.seconds(Iteration(1, 1000), 16)
    assert found.without_s - found.with_s == pytest.approx(0.5 * layers - ENGINE.head_s(1), rel=1e-6)
    assert found.change < -0.1


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_at_a_batch_of_sixteen_it_no_longer_pays(share: float) -> None:
    assert worth(ENGINE, 16, 1000, depth=0.5, share=share).change > 0


def test_where_no_token_exits_the_ramp_is_what_it_costs() -> None:
    found = worth(ENGINE, 4, 500, depth=0.5, share=0.0)
    assert found.with_s - found.without_s == pytest.approx(ENGINE.head_s(4), rel=1e-6)


def test_where_it_pays_is_told_as_ranges_of_all_batches() -> None:
    found = paying(ENGINE, 2000, depth=0.25, share=0.5, most=128)
    inside = [batch for one in found for batch in range(one.first, one.last + 1)]
    assert inside == [b for b in range(1, 129) if worth(ENGINE, b, 2000, depth=0.25, share=0.5).change < 0]
    # For a few sequences weights are spared, for many of them contexts.
    assert len(found) == 2
    assert found[0].first == 1
    assert found[1].last == 128
    assert paying(ENGINE, 1000, depth=0.5, share=0.5, most=64) == (Batches(1, 2),)
    assert paying(ENGINE, 1000, depth=0.5, share=0.0, most=8) == ()
