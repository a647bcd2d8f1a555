"""Two classifiers' answers as one: products of probabilities, with a label that one of them told."""

import json

import pytest

from cascadia.router.openai.one_pass import Part, part_of
from cascadia.router.openai.pooled import pooled


def part(*probs: float) -> Part:
    top = max(range(len(probs)), key=probs.__getitem__)
    told = {"index": 0, "label": "abc"[top], "probs": probs, "num_classes": len(probs), "own": 1}
    return part_of(json.dumps(told).encode())


def test_probabilities_are_multiplied_and_normed() -> None:
    found = pooled(part(0.6, 0.3, 0.1), part(0.2, 0.4, 0.4), 1.0)
    assert found.probs == pytest.approx((0.12 / 0.28, 0.12 / 0.28, 0.04 / 0.28))
    assert found.margin == pytest.approx(0.0, abs=1e-9)


def test_what_the_earlier_ruled_out_settles_a_near_draw_of_the_later() -> None:
    found = pooled(part(0.45, 0.46, 0.09), part(0.55, 0.05, 0.40), 0.3)
    told = json.loads(found.raw)
    assert (told["label"], told["index"], told["own"], told["num_classes"]) == ("a", 0, 1, 3)
    assert sum(told["probs"]) == pytest.approx(1.0)
    assert pooled(part(0.45, 0.46, 0.09), part(0.55, 0.05, 0.40), 0.0).probs == pytest.approx(
        (0.45, 0.46, 0.09)
    )


def test_a_class_whose_label_nobody_told_does_not_win() -> None:
    later = part(0.5, 0.04, 0.46)
    assert pooled(later, part(0.04, 0.5, 0.46), 1.0) == later


def test_other_classes_are_not_pooled() -> None:
    later = part(0.5, 0.3, 0.2)
    assert pooled(later, part(0.9, 0.1), 1.0) == later
    assert pooled(part(1.0), part(1.0), 1.0) == part(1.0)
