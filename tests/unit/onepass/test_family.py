"""The bundled family, and the texts that it was trained and is measured on."""

import gzip
import json
from pathlib import Path

import numpy as np

from cascadia.onepass.family import CUTS, Family, bundled_family, model_name
from cascadia.onepass.questions import questions


def test_the_bundled_family_is_the_one_of_this_release() -> None:
    family = bundled_family()
    assert len(family.labels) == 16
    for cut in CUTS:
        assert family.head(cut).weight.shape == (16, 384)


def test_what_was_learned_is_added_to_the_layers_that_are_kept() -> None:
    arrays = {"up_0_output_dense": np.ones((3, 1)), "down_0_output_dense": np.full((1, 2), 0.5)}
    family = Family(("a",), arrays)  # type: ignore[arg-type]
    names = [f"encoder.layer.{n}.output.dense.weight" for n in (0, 1)]
    weights = {name: np.zeros((3, 2), np.float32) for name in names}
    import cascadia.onepass.family as module

    found = Family.corrected(family, weights, 0)
    assert not found[names[0]].any()
    matrices, module.MATRICES = module.MATRICES, ("output.dense",)
    try:
        found = family.corrected(weights, 1)
    finally:
        module.MATRICES = matrices
    assert (found[names[0]] == 0.5).all()
    assert not found[names[1]].any()


def test_models_are_named_after_their_task_cut_and_precision() -> None:
    assert model_name("classify", 4, "fp32") == "intent-4"
    assert model_name("rerank", 6, "int8") == "rank-6-int8"


def test_a_question_is_a_first_sentence_without_the_service_s_name(tmp_path: Path) -> None:
    said = "<p>Creates a bucket that AWS Glue Crawlers can read from. More follows.</p>"
    both = "Says the same thing of two services at once, word for word."
    for name in ("glue", "s3"):
        members = {
            "A": {"documentation": said if name == "glue" else "Too short"},
            "B": {"documentation": both},
        }
        document = {"operations": members, "shapes": {"P": {"documentation": "Placeholder " * 9}}}
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    found = questions(tmp_path)
    assert [(one.text, one.label) for one in found] == [
        ("Creates a bucket that the service can read from", "glue")
    ]
