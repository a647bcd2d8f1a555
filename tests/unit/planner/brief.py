"""Short searches for what commands plan in this process: what they tell and write of a plan is the same of any."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cascadia.planner import plan
from cascadia.planner.refinement import supersets
from tests.unit.planner.problems import SHORT


@contextmanager
def brief_searches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (plan, supersets):
            patch.setattr(module, "effort_for", lambda cluster: SHORT)
        yield
