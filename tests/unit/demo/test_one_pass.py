"""The router's file of `cascadia demo --classify` is one that the router reads."""

from pathlib import Path

import pytest
import yaml

from cascadia.demo.one_pass import BATCHES, EARLIER_WEIGHT, THRESHOLDS, one_pass_document
from cascadia.router.settings.file import read_settings


@pytest.mark.parametrize("group", [None, BATCHES])
def test_the_file_names_the_cascade_s_models_at_each_worker(
    tmp_path: Path, group: dict[str, object] | None
) -> None:
    document = one_pass_document(THRESHOLDS, ["http://h:1", "http://h:2"], 8000, group, EARLIER_WEIGHT)
    path = tmp_path / "router.yaml"
    path.write_text(yaml.safe_dump(document))
    settings = read_settings(path, {})
    assert {stage.name: stage.threshold for stage in settings.stages} == THRESHOLDS
    assert [stage.earlier_weight for stage in settings.stages] == [0.0, EARLIER_WEIGHT, EARLIER_WEIGHT]
    assert all(len(stage.replicas) == 2 for stage in settings.stages)
    assert [sorted(each.stages) for each in settings.groups] == (
        [] if group is None else [sorted(THRESHOLDS)]
    )
