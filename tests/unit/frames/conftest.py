"""The plan that frames are made of."""

import pytest

from cascadia.domain.plan import Plan
from tests.unit.planner.problems import LARGE, MEDIUM, ON_ROUTER, briefly, problem, rising_table, traffic


@pytest.fixture(scope="session")
def made() -> Plan:
    return briefly(problem((MEDIUM, LARGE), judge=ON_ROUTER, trace=traffic(300), table=rising_table(2))).plan
