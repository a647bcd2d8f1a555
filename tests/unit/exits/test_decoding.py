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
    assert found.without_s - found.with_s == pytest.approx(0.5 * layers - ENGINE.head_s(1), rel=0.01)
    assert found.change < -0.1


@pytest.mark.parametrize("share", [0.9, 0.99, 0.999, 1.0])
def test_of_many_sequences_no_work_of_late_layers_is_spared(share: float) -> None:
    """What exited tokens owe is made up: reading weights is spared, and contexts, and nothing else. At 256 sequences of
    which all exit, a quarter of the time was once said to be saved."""
    contexts = (ENGINE.seconds(Iteration(256, 1000)) - ENGINE.seconds(Iteration(256, 1))) / 2
    fewer_readings = ENGINE.late_s(256, 16) - 256 / 8192 * ENGINE.late_s(8192, 16)
    found = worth(ENGINE, 256, 1000, depth=0.5, share=share)
    assert found.without_s - found.with_s <= contexts + fewer_readings


def test_more_exits_never_take_longer_and_a_later_ramp_saves_no_more() -> None:
    for batch in (1, 4, 64, 256):
        by_share = [worth(ENGINE, batch, 1000, depth=0.5, share=s / 10).with_s for s in range(11)]
        assert by_share == sorted(by_share, reverse=True)
        by_depth = [worth(ENGINE, batch, 1000, depth=d / 10, share=0.5).with_s for d in range(1, 10)]
        assert by_depth == sorted(by_depth)


@pytest.mark.parametrize(("depth", "early"), [(0.001, 1), (0.5, 16), (0.999, 31)])
def test_a_layer_stays_on_either_side_of_the_ramp(depth: float, early: int) -> None:
    assert ENGINE.early_layers(depth) == early


def test_no_more_sequences_are_told_of_than_memory_holds() -> None:
    assert ENGINE.most(1000) > 256
    held = ENGINE.most(30_000)
    assert 1 < held < 64
    assert ENGINE.most(30_000 * held) == 1
    assert ENGINE.most(10_000_000) == 0


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
