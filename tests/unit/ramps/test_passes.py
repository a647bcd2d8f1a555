"""Inputs leave where their ramp is sure; the backbone's answers stay what they were, bit for bit."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto
from onnxruntime.quantization import QuantType, quantize_dynamic

from cascadia.exits.readings import exits
from cascadia.ramps.cuts import cuts
from cascadia.ramps.passes import Passes
from cascadia.ramps.ramp import Ramp
from cascadia.ramps.segments import segments
from cascadia.ramps.session import SLOWER
from cascadia.ramps.texts import typical
from cascadia.ramps.train import Seen, fit, look, readings
from tests.unit.ramps.tiny_classifier import batch, classifier

NONE = np.zeros(3)
FUSED = ("Quantize", "Gelu", "Norm", "Attention")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelProto:
    return classifier(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def seen(model: ModelProto) -> Seen:
    return look(model, cuts(model), [batch(16, seed) for seed in range(40)])


@pytest.fixture(scope="module")
def ramps(model: ModelProto, seen: Seen) -> tuple[Ramp, ...]:
    return fit(cuts(model), seen.take(slice(480)))


@pytest.fixture(scope="module")
def passes(model: ModelProto, ramps: tuple[Ramp, ...]) -> Passes:
    return Passes.of(model, ramps)


def test_ramps_agree_with_the_model_more_often_than_chance(ramps: tuple[Ramp, ...], seen: Seen) -> None:
    fresh = readings(ramps, seen.take(slice(480, None)))
    most = max(np.bincount(fresh.final)) / len(fresh)
    assert (1 - fresh.wrong.mean(axis=0) > most).all()


def test_the_models_weights_are_in_the_segments_as_they_were(
    model: ModelProto, ramps: tuple[Ramp, ...]
) -> None:
    before = {tensor.name: tensor.SerializeToString() for tensor in model.graph.initializer}
    found: dict[str, bytes] = {}
    for part in segments(model, ramps):
        found |= {
            t.name: t.SerializeToString() for t in part.graph.initializer if not t.name.startswith("ramp")
        }
    assert found == before


@pytest.mark.parametrize("size", [1, 7, 16])
def test_segments_together_answer_as_the_whole_model_does(passes: Passes, size: int) -> None:
    some = batch(size, 100 + size)
    found = passes.run(some, NONE, np.zeros(size, dtype=np.bool_))
    assert np.array_equal(found.chances, passes.run_whole(some))
    assert (found.exit_at == 3).all()


@pytest.mark.parametrize("size", [1, 7, 16])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_exits_that_are_off_change_no_bit_of_an_answer(
    model: ModelProto, ramps: tuple[Ramp, ...], size: int, drawn: bool, precision: str
) -> None:
    served = model if precision == "fp32" else int8(model)
    passes, some = Passes.of(served, ramps), batch(size, 200 + size)
    stays, sure = np.full(size, drawn), np.full(len(ramps), 2.0)
    expected = passes.run_whole(some)
    assert np.array_equal(passes.run(some, NONE, stays).chances, expected)
    declined = passes.run(some, sure, stays, declines=np.ones(size, dtype=np.bool_))
    assert np.array_equal(declined.chances, expected)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_segments_are_fused_as_the_whole_model_is(
    model: ModelProto, ramps: tuple[Ramp, ...], tmp_path: Path, precision: str
) -> None:
    """What is fused decides about time and bits."""
    served = model if precision == "fp32" else int8(model)
    whole = fused(served, tmp_path)
    parts = sum((fused(part, tmp_path) for part in segments(served, ramps)), Counter[str]())
    kinds = {each for each in whole | parts if any(word in each for word in FUSED)}
    assert any("Gelu" in each for each in kinds)
    assert {each: parts[each] for each in kinds} == {each: whole[each] for each in kinds}


def int8(model: ModelProto) -> ModelProto:
    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "a.onnx", Path(folder) / "b.onnx"
        onnx.save(model, before)
        quantize_dynamic(before, after, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
        return onnx.load(after)


def fused(model: ModelProto, folder: Path) -> Counter[str]:
    """Operators that ONNX Runtime makes of a graph."""
    file = folder / "fused.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(file)
    onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOWER,
    )
    return Counter(node.op_type for node in onnx.load(file).graph.node)


def test_inputs_leave_where_their_readings_say(
    passes: Passes, model: ModelProto, ramps: tuple[Ramp, ...]
) -> None:
    some = batch(32, 7)
    expected = readings(ramps, look(model, cuts(model), [some]))
    thresholds = np.quantile(expected.doubts, 0.3, axis=0)
    found = passes.run(some, thresholds, np.zeros(32, dtype=np.bool_))
    assert found.exit_at.tolist() == exits(expected.doubts, thresholds).tolist()
    assert len(set(found.exit_at.tolist())) == 4
    for row, at in enumerate(found.exit_at.tolist()):
        label = expected.labels[row, at] if at < 3 else expected.final[row]
        assert found.chances[row].argmax() == label
    assert len(found.fed_back) == 0


def test_those_that_stay_are_released_at_once_and_fed_back(
    passes: Passes, model: ModelProto, ramps: tuple[Ramp, ...]
) -> None:
    some = batch(24, 8)
    expected = readings(ramps, look(model, cuts(model), [some]))
    thresholds = np.quantile(expected.doubts, 0.5, axis=0)
    stays = np.arange(24) % 3 == 0
    released: list[tuple[int, int]] = []
    found = passes.run(
        some, thresholds, stays, lambda rows, _, at: released.extend((row, at) for row in rows)
    )
    assert sorted(released) == list(enumerate(found.exit_at.tolist()))
    assert [at for _, at in released] == sorted(at for _, at in released)
    assert found.fed_back.doubts == pytest.approx(expected.doubts[stays], abs=1e-5)
    assert found.fed_back.final.tolist() == expected.final[stays].tolist()


def test_where_all_leave_nothing_more_is_computed(passes: Passes) -> None:
    found = passes.run(batch(4, 9), np.ones(3) * 2, np.zeros(4, dtype=np.bool_))
    assert found.exit_at.tolist() == [0, 0, 0, 0]


def test_without_ramps_it_is_the_model(model: ModelProto) -> None:
    passes, some = Passes.of(model, ()), batch(5, 10)
    found = passes.run(some, np.zeros(0), np.ones(5, dtype=np.bool_))
    assert np.array_equal(found.chances, passes.run_whole(some))
    assert found.fed_back.final.tolist() == found.chances.argmax(axis=1).tolist()


def test_a_model_that_says_one_thing_only_trains_no_ramp(model: ModelProto, seen: Seen) -> None:
    same = Seen(seen.pooled, np.tile(np.array([[0.8, 0.1, 0.1]], dtype=np.float32), (len(seen.chances), 1)))
    with pytest.raises(ValueError, match="same label"):
        fit(cuts(model), same)


def test_a_model_may_give_logits(model: ModelProto, seen: Seen, ramps: tuple[Ramp, ...]) -> None:
    some = seen.take(slice(480))
    found = fit(cuts(model), Seen(some.pooled, np.log(some.chances) + 7.0))
    for ramp, expected in zip(found, ramps, strict=True):
        assert ramp.chances(some.pooled[0]) == pytest.approx(expected.chances(some.pooled[0]), abs=0.01)


def test_ramps_learn_how_sure_the_model_was(model: ModelProto, seen: Seen) -> None:
    """Two models say the same of all inputs, one of them hardly ever surely."""
    some = seen.take(slice(480))
    said = np.eye(3, dtype=np.float32)[some.final]
    (sure, *_), (unsure, *_) = (
        fit(cuts(model), Seen(some.pooled, share * said + (1 - share) / 3)) for share in (1.0, 0.5)
    )
    at = some.pooled[0]
    assert unsure.chances(at).max(axis=1).mean() < sure.chances(at).max(axis=1).mean() - 0.1


@pytest.mark.parametrize("size", [1, 2, 7])
def test_texts_that_are_timed_are_short_and_long(size: int) -> None:
    texts = ["a" * n for n in (1, 1, 2, 3, 5, 8, 13, 21, 34)]
    found = [len(text) for text in typical(texts, size)]
    assert len(found) == size
    assert min(found) <= 5 <= max(found)
