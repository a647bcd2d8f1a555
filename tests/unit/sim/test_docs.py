"""The reference page says what the catalogues hold."""

import pytest

from tests.data import ROOT
from tests.unit.sim.catalogue_page import gpu_rows, model_rows

PAGE = (ROOT / "docs" / "reference" / "catalogue.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", gpu_rows() + model_rows())
def test_the_page_has_this_row(row: str) -> None:
    assert row in PAGE


def test_the_page_has_no_other_rows() -> None:
    rows = [line for line in PAGE if line.startswith("| `")]
    assert sorted(rows) == sorted(gpu_rows() + model_rows())
