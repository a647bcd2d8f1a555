"""Whatever a plan goes by, the router reads the file that is written for it, and has whom to ask."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.plan import ExitPlan, ForesightPlan, JudgePlan, Plan, ReplicaGroup
from cascadia.render import notes, render
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of
from cascadia.testing.plans import plan, stage
from tests.unit.render.reading import documents

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)
NODE = Cluster((Pool("h100", "h100-sxm", 1, 8, 2.0),))
JUDGES = {
    "embedding": JudgePlan(
        "embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
    ),
    "llm": JudgePlan(
        "llm", "self-hosted", "m/j", engine="vllm", quantization=None, max_model_len=4096, replicas=(ONE,)
    ),
}
HEADS = {"foresight": {"replicas": [{"url": "http://heads:8201"}]}}
WAYS: dict[str, dict[str, Any]] = {
    "by scores": {},
    "by scores and the question": {"skip_below": (20.0,)},
    "by the question alone": {"thresholds": (0.0,), "skip_below": (20.0,)},
    "by the question in a gear": {
        "thresholds": (0.0,),
        "gears": (
            Gear(5.0, 2.0, ("small", "large"), (0.0,)),
            Gear(None, 4.0, ("small", "large"), (0.0,), skip_below=(30.0,)),
        ),
    },
}
EXITS: dict[str, dict[str, Any]] = {
    "no exits": {},
    "trials": {"exits": (ExitPlan(64, 80.0, 0.3),)},
    "trials where they are promised": {"exits": (ExitPlan(64, 80.0, 0.3, foreseen=70.0),)},
    "budgets": {"exits": (ExitPlan(64, 80.0, 0.3),), "budget_field": "thinking_token_budget"},
}


def made(judge: str, way: str, exits: str, *, heads: bool) -> Plan:
    small = stage("small", ONE, model="m/s", **EXITS[exits])
    found = plan([small, stage("large", ONE, model="m/l")], NODE, JUDGES[judge])
    return replace(found, foresight=ForesightPlan("0" * 64, 0.02) if heads else None, **WAYS[way])


def looks(way: str, exits: str) -> bool:
    """Does anything go by the question alone?"""
    return way != "by scores" or exits in ("trials where they are promised", "budgets")


# No plan is read that asks somebody who foresees nothing.
CASES = [
    case
    for case in product(JUDGES, WAYS, EXITS, (False, True))
    if case[3] or case[0] == "embedding" or not looks(case[1], case[2])
]


@pytest.mark.long(in_ci=10)
@pytest.mark.parametrize(("judge", "way", "exits", "heads"), CASES)
def test_the_router_reads_what_is_written_for_it(
    judge: str, way: str, exits: str, heads: bool, tmp_path: Path
) -> None:
    found = made(judge, way, exits, heads=heads)
    values = {"router": {"config": HEADS}} if heads else {}
    told = documents(render(found, found.cluster, "kubernetes", values=values))
    (text,) = (each["data"]["router.yaml"] for each in told if "router.yaml" in each.get("data", {}))
    (tmp_path / "router.yaml").write_text(text)
    read = read_settings(tmp_path / "router.yaml")
    names = ["small", "large", *(["judge"] if found.asks_judge else []), *(["foresight"] if heads else [])]
    addresses = {name: ["http://127.0.0.1:9"] for name in names}
    served = settings_of(found, addresses, "plan", None)
    for each in (read, served):
        assert each.judge is not None or not found.asks_judge
        assert (each.foresight is not None) == heads
    assert any(note.startswith("foresight: ") for note in notes(found)) == heads
