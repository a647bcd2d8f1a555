"""Names of exits inside a model, by hand: what they say, and where an input leaves."""

import pytest

from cascadia.domain.names import LayerExit, Point, point_of


@pytest.mark.parametrize(
    ("name", "at", "doubt"),
    [
        ("small@layer-1", LayerExit(1), 2.0),
        ("a/b.c@layer-9999", LayerExit(9999), 2.0),
        ("small@layer-2/0.75", LayerExit(2, 0.75), 0.25),
        ("small@layer-12/0.999999", LayerExit(12, 0.999999), 1e-6),
        ("small@layer-3/0.000001", LayerExit(3, 1e-6), 0.999999),
    ],
)
def test_a_name_says_where_a_pass_ends_and_at_which_doubt(name: str, at: LayerExit, doubt: float) -> None:
    found = point_of(name)
    assert found == Point(name.split("@", maxsplit=1)[0], at)
    assert f"{found.stage}{found.at}" == name
    assert at.doubt == pytest.approx(doubt)


@pytest.mark.parametrize("name", ["small", "small@layer-0", "small@layer-10000", "@layer-2", "a@layer-2/1.0"])
def test_another_name_is_a_stages_own(name: str) -> None:
    assert point_of(name) == Point(name, None)


@pytest.mark.parametrize(
    ("layer", "sure"), [(0, None), (-1, 0.5), (1, 0.0), (1, 9e-7), (1, 1.0), (1, 0.9999999)]
)
def test_no_pass_ends_before_its_first_layer_or_surer_than_six_digits_tell(
    layer: int, sure: float | None
) -> None:
    with pytest.raises(ValueError, match="no exit"):
        LayerExit(layer, sure)
