"""Speculation's terms: what an iteration with drafts takes, how far it comes, and how many tokens are drafted when."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.breakdown import Iteration, charged_s
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation, drafter, speculates
from cascadia_sim.iteration.timing import ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.unit.sim.machines import machine

BIG, SMALL = "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.2-1B"
WAYS = (
    Speculation("ngram", 7, 0.4),
    Speculation("eagle3", 5, 0.7, "some/head"),
    Speculation("mtp", 2, 0.8),
    Speculation("draft_model", 6, 0.7, SMALL),
)


def served(speculation: Speculation | None, *, pp: int = 1, **settings: object) -> ReplicaTiming:
    config = EngineConfig(speculation=speculation, **settings)  # type: ignore[arg-type]
    return replica_timing(architecture(BIG), gpu("h100-sxm"), tp=4, pp=pp, config=config)


def token_s(timing: ReplicaTiming, sequences: int, context: int, drafts: int) -> float:
    """Time a token of one sequence in a batch that only decodes."""
    return charged_s(timing, Iteration(sequences, context, drafts=drafts)) / timing.progress(drafts)


@pytest.mark.parametrize(("acceptance", "drafts"), [(0.0, 3), (0.5, 1), (0.5, 4), (0.9, 7)])
def test_a_sequence_moves_on_as_the_distribution_says(acceptance: float, drafts: int) -> None:
    """Of 40,000 tokens in iterations of 1 ps each, within four standard errors of the mean."""
    steps_of_1 = machine(token_ps=np.array([1] * 20), kv=100_000)
    timing = replace(
        steps_of_1,
        draft_tokens=np.full(5, drafts),
        draft_ps=np.zeros(5, np.int64),
        acceptance=acceptance,
    )
    n = 40_000
    steps = simulate_replica(timing, [0], [1], [n], [0]).finish_ps[0]
    expected = timing.progress(drafts)
    chances = np.diff([0.0, *(1 - acceptance ** np.arange(1, drafts + 1)), 1.0])
    variance = (chances * np.arange(1, drafts + 2) ** 2).sum() - expected**2
    assert n / steps == pytest.approx(expected, abs=4 * np.sqrt(variance / steps) + 1e-4)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.method)
@pytest.mark.parametrize("context", [0, 1024])
def test_a_schedule_is_no_slower_than_drafting_nothing_with_the_same_draft(
    way: Speculation, context: int
) -> None:
    timing = served(way)
    for sequences in range(1, 257):
        drafts = timing.drafts_at(sequences)
        idle = replace(timing, draft_ps=np.zeros_like(timing.draft_ps))
        assert token_s(timing, sequences, context, drafts) <= token_s(idle, sequences, context, 0) * (
            1 + 1e-9
        )


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.method)
def test_fewer_are_drafted_the_more_sequences_decode(way: Speculation) -> None:
    drafts = served(way).draft_tokens[1:]
    assert (np.diff(drafts) <= 0).all()
    assert 0 < drafts[0] <= way.tokens
    assert drafts[-1] < way.tokens


def test_drafts_found_in_the_text_cost_their_check_alone() -> None:
    plain, drafting = served(None), served(WAYS[0])
    eight = Iteration(8, 1000, drafts=drafting.drafts_at(8))
    rows = charged_s(drafting, eight) - charged_s(plain, replace(eight, drafts=0))
    tokens = (drafting.token_ps[eight.tokens] - plain.token_ps[8]) * 1e-12
    assert rows > tokens > 0
    assert drafting.kv_tokens <= plain.kv_tokens


def test_a_draft_model_takes_memory_and_its_own_passes() -> None:
    """Seven times the weights of the draft are read for six drafts: once by the pass that all tokens take."""
    plain, drafting = served(None), served(WAYS[3])
    small = replica_timing(architecture(SMALL), gpu("h100-sxm"), tp=4, pp=1, config=EngineConfig())
    assert drafting.kv_tokens < plain.kv_tokens - 20_000
    drafts = drafting.drafts_at(1)
    extra = charged_s(drafting, Iteration(1, 1, drafts=drafts)) - charged_s(plain, Iteration(drafts + 1, 1))
    assert 0.5 * drafts < extra / charged_s(small, Iteration(1, 1)) < drafts + 1


def test_pipelines_and_drafts_that_never_pay_leave_the_tables_alone() -> None:
    assert not served(WAYS[1], pp=2).draft_tokens.size
    hopeless = served(replace(WAYS[3], acceptance=0.0))
    assert not hopeless.draft_tokens.size
    assert (hopeless.token_ps == served(None).token_ps).all()


def test_other_engines_draft_the_same_number_always() -> None:
    sglang = served(WAYS[1], engine="sglang")
    assert set(sglang.draft_tokens[1:].tolist()) == {5}
    ranks = served(WAYS[1], attention_dp=2)
    assert set(ranks.draft_tokens[1:].tolist()) == {5}


@pytest.mark.parametrize("tokens", [256, 512, 1024, 1279, 1280])
def test_an_engine_with_one_number_drafts_as_many_at_every_load_whatever_room_there_is(tokens: int) -> None:
    timing = served(replace(WAYS[1], tokens=4), engine="sglang", max_num_batched_tokens=tokens)
    assert set(timing.draft_tokens[1:].tolist()) == ({tokens // 256 - 1} if tokens >= 512 else set())


def test_no_more_is_drafted_than_an_iteration_has_room_for() -> None:
    timing = served(replace(WAYS[0], acceptance=0.99), max_num_batched_tokens=512)
    sequences = np.arange(1, 257)
    assert (sequences * (timing.draft_tokens[1:] + 1) <= 512).all()


@pytest.mark.parametrize(
    ("method", "model", "tp", "pp", "tokens", "drafts"),
    [
        ("ngram", None, 8, 1, 1, True),
        ("ngram", None, 8, 1, 0, False),
        ("ngram", None, 1, 2, 4, False),
        ("draft_model", SMALL, 8, 1, 4, True),
        ("draft_model", SMALL, 3, 1, 4, False),
        ("eagle3", "some/head", 3, 1, 4, True),
    ],
)
def test_replicas_draft_where_a_draft_can_be_split_as_they_are(
    method: str, model: str | None, tp: int, pp: int, tokens: int, drafts: bool
) -> None:
    asked = Speculation(method, tokens, 0.5, model)  # type: ignore[arg-type]
    assert speculates(asked, tp=tp, pp=pp) is drafts
    assert not speculates(None, tp=tp, pp=pp)


def test_a_layer_of_the_models_own_is_dense_or_a_mixture_as_the_model_is() -> None:
    dense, mixed = architecture(BIG), architecture("Qwen/Qwen3-30B-A3B")
    assert mixed.moe is not None
    assert drafter(Speculation("ngram", 3, 0.5), dense) is None
    small = drafter(Speculation("draft_model", 3, 0.5, SMALL), dense)
    assert small == architecture(SMALL)
    found = {
        (method, target.name): drafter(Speculation(method, 3, 0.5, "a/b"), target)  # type: ignore[arg-type]
        for method in ("mtp", "eagle3")
        for target in (dense, mixed)
    }
    told = {key: one and (one.layers, one.intermediate, one.moe) for key, one in found.items()}
    active = mixed.intermediate or mixed.moe.per_token * mixed.moe.intermediate
    assert told == {
        ("mtp", dense.name): (1, dense.intermediate, None),
        ("eagle3", dense.name): (1, dense.intermediate, None),
        ("mtp", mixed.name): (1, 0, replace(mixed.moe, dense_layers=0)),
        ("eagle3", mixed.name): (1, active, None),
    }
    assert all(one is not None and one.tied_embeddings for one in found.values())
