"""The router's file says what the plan says."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.render.compose.router_file import router_document
from cascadia.router.settings.file import read_settings
from tests.unit.planner.plans import a_plan


@pytest.fixture
def plan() -> Plan:
    """Two replicas of the small stage with half of the share each, one of the large."""
    made = a_plan()
    small = replace(made.stages[0], name="small", replicas=(ReplicaGroup("cpu", 1, 1, 2, 1.0),))
    large = replace(made.stages[-1], name="large", replicas=(ReplicaGroup("cpu", 1, 1, 1, 1.0),))
    (pool,) = made.cluster.pools
    cluster = replace(made.cluster, pools=(pool, replace(pool, name="cpu")))
    return replace(made, cluster=cluster, stages=(small, large), thresholds=(42.5,), skip_below=(25.0,))


URLS = {"small": ["http://127.0.0.1:8201", "http://127.0.0.1:8202"], "large": ["http://127.0.0.1:8203"]}


def test_the_router_reads_thresholds_replicas_and_what_is_skipped(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "router.yaml"
    file.write_text(yaml.safe_dump(router_document(plan, URLS, "http://127.0.0.1:8204", 8123)))
    settings = read_settings(file)
    small, large = settings.stages
    assert (small.name, small.threshold, small.skip_below) == ("small", 42.5, 25.0)
    assert (large.name, large.skip_below) == ("large", None)
    assert [(replica.url, replica.share) for replica in small.replicas] == [
        (url, 0.5) for url in URLS["small"]
    ]
    assert settings.judge is not None
    assert settings.judge.kind == "embedding"
    assert settings.port == 8123


def test_a_plan_of_one_stage_needs_no_judge(plan: Plan, tmp_path: Path) -> None:
    small, large = plan.stages
    alone = replace(plan, stages=(replace(small, replicas=()), large), gears=())
    file = tmp_path / "router.yaml"
    file.write_text(yaml.safe_dump(router_document(alone, URLS, None, 8123)))
    settings = read_settings(file)
    assert [stage.name for stage in settings.stages] == ["large"]
    assert settings.judge is None
