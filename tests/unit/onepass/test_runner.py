"""One pass: batches say what single texts say, and what cannot be read is named."""

from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.onepass.graph import Head, one_pass_graph
from cascadia.onepass.measuring import measured
from cascadia.onepass.questions import Question
from cascadia.onepass.runner import BadText, Runner
from tests.unit.onepass.little_model import CONFIG, SIZE, little_model, weights


def test_a_text_in_a_batch_has_the_probabilities_that_it_has_alone(tmp_path: Path) -> None:
    runner = Runner.read(little_model(tmp_path))
    texts = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9"]
    together = runner.forward(runner.ids(texts))
    alone = [runner.forward(runner.ids([text])).values[0] for text in texts]
    assert np.allclose(together.values, alone, atol=1e-6)
    assert np.allclose(together.values.sum(axis=1), 1.0)
    assert together.tokens.tolist() == [5, 3, 7]


def test_each_size_is_measured_by_times_as_likely_as_another(tmp_path: Path) -> None:
    """A clock by which passes take 1, 2, ... seconds in turn."""
    ticks = iter(np.cumsum([step for n in range(1, 1000) for step in (0.0, float(n))]).tolist())
    asked = [Question(f"w{n % 5 + 1}", "a", test=True) for n in range(40)]
    runner, rng = Runner.read(little_model(tmp_path)), np.random.default_rng(0)
    found = measured(runner, asked, passes=20, rng=rng, clock=lambda: next(ticks))
    # Of ten sizes in turn the first takes 1, 11, 21, ... seconds.
    assert found.drawn_s[0] == pytest.approx([1 + 10 * turn for turn in range(20)], abs=5)
    assert len(found.drawn_s) == len(found.p95_s)
    assert np.mean(found.drawn_s, axis=1) == pytest.approx(found.mean_s, rel=0.02)
    assert all(list(times_s) == sorted(times_s) for times_s in found.drawn_s)


def test_token_ids_are_read_as_their_text_is(tmp_path: Path) -> None:
    runner = Runner.read(little_model(tmp_path))
    assert np.array_equal(
        runner.forward(runner.ids(["w1 w2"])).values, runner.forward(runner.ids([[5, 6]])).values
    )


def test_a_reranker_s_vectors_have_length_1(tmp_path: Path) -> None:
    runner = Runner.read(little_model(tmp_path, task="rerank", layers=2))
    found = runner.forward(runner.ids(["w1", "w2 w3"]))
    assert found.values.shape == (2, SIZE)
    assert np.allclose(np.linalg.norm(found.values, axis=1), 1.0)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("", "The text has no token"),
        (
            "w1 " * 7,
            "The text has 7 tokens, and little reads 6: send a shorter one, or `truncate_prompt_tokens: -1`",
        ),
        ([99], "A token id is not within 0 and 23"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, one: str | list[int], said: str) -> None:
    runner = Runner.read(little_model(tmp_path))
    with pytest.raises(BadText) as caught:
        runner.ids(["w1", one])
    assert str(caught.value).startswith(said)
    assert caught.value.at == 1


def test_a_long_text_is_cut_where_that_is_asked_for(tmp_path: Path) -> None:
    runner = Runner.read(little_model(tmp_path))
    for truncate, kept in ((runner.model.tokens_max, 6), (5, 3), (1, 1)):
        assert runner.ids(["w1 " * 9], truncate=truncate) == [[5] * kept]


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no model\.json"):
        Runner.read(tmp_path)
    folder = little_model(tmp_path)
    (folder / "model.json").write_text('{"name": "x", "task": "sing"}')
    with pytest.raises(BadInput, match="task"):
        Runner.read(folder)


def test_a_cut_has_as_many_layers_as_it_is_cut_after() -> None:
    head = Head(np.zeros((2, SIZE), np.float32), np.zeros(2, np.float32))
    counts = [
        sum(
            node.op_type == "Attention"
            for node in one_pass_graph(CONFIG, weights(), cut, head, "x").graph.node
        )
        for cut in (1, 2)
    ]
    assert counts == [1, 2]
