"""The whole text of one realistic plan. CASCADIA_WRITE_GOLDEN=1 writes it anew, to be read in the diff."""

import os

import pytest

from cascadia.render import FILE_NAMES, Target, render
from cascadia.testing.plans import three_stages
from tests.data import ROOT
from tests.unit.render.manifests import WITHOUT_DASHBOARDS

GOLDEN = ROOT / "tests" / "golden" / "render"


@pytest.mark.parametrize("target", list(FILE_NAMES))
def test_three_stages_are_rendered_as_before(target: Target) -> None:
    plan = three_stages()
    text = render(plan, plan.cluster, target, values=WITHOUT_DASHBOARDS)
    golden = GOLDEN / FILE_NAMES[target]
    if os.environ.get("CASCADIA_WRITE_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
