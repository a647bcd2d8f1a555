"""What both majors of Helm make of every case is what we make; tests/unit asks of each case with one of them."""

import pytest

from tests.unit.deploy import test_equality as equality
from tests.unit.deploy.matrix import MATRIX


@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize("name", list(MATRIX))
def test_render_and_helm_make_the_same_objects(name: str, major: int) -> None:
    equality.test_render_and_helm_make_the_same_objects(name, major)
