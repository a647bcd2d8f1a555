"""Groups of one-pass models in router.yaml: what does not fit together is told with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.files.policies_file import policies_document
from cascadia.router.settings.file import read_settings

REPLICAS = [{"url": "http://h:1"}, {"url": "http://h:2"}]


def stage(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "task": "classify", "group": "g", "replicas": REPLICAS} | more


def read(folder: Path, stages: list[dict[str, Any]], **more: Any) -> None:
    path = folder / "router.yaml"
    path.write_text(json.dumps({"stages": stages} | more))
    read_settings(path, {})


GROUPS = [{"name": "g"}]
PAIRS = policies_document(
    Policies(
        *("g", ("a",)), slo_s=1.0, workers=1, queue="central", index="rate",
        levels=(Policy(1.0, tuple(PolicyRow((0.0,), ("a",), (size,)) for size in (1, 2))),),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("stages", "more", "said"),
    [
        ([stage("a")], {}, r"stages\[0\]\.group: 'g' is no group"),
        ([stage("a", group=None)], {"groups": GROUPS}, r"groups\[0\]: has no stage"),
        ([stage("g")], {"groups": GROUPS}, r"groups\[0\]\.name: 'g' is taken"),
        (
            [stage("a"), stage("b", replicas=REPLICAS[:1])],
            {"groups": GROUPS},
            r"b has other workers than a",
        ),
        (
            [stage("a", task="rerank")],
            {"groups": [{"name": "g", "min_queue": [{"up_to_rps": 1, "lengths": {"a": 2}}]}]},
            r"min_queue: waits for what no batch joins",
        ),
        (
            [stage("a", task="rerank")],
            {"groups": [{"name": "g", "policies": PAIRS}]},
            r"policies: take 2 rankings at once",
        ),
        (
            [stage("a")],
            {"groups": [{"name": "g", "min_queue": [{"up_to_rps": 1, "lengths": {"b": 2}}]}]},
            r"min_queue\[0\]\.lengths: 'b' is no stage of it",
        ),
        (
            [stage("a")],
            {"groups": [{"name": "g", "slo_ms": 5, "min_queue": [{"up_to_rps": 1, "lengths": {"a": 2}}]}]},
            r"max_wait_ms: is 20, and slo_ms 5",
        ),
        (
            [stage("a"), stage("b", task="rerank", group=None)],
            {"groups": GROUPS},
            r"stages\[1\]\.task: is rerank",
        ),
        (
            [stage("a", verifiers=[{"kind": "python-syntax"}])],
            {"groups": GROUPS},
            r"what reads a written answer",
        ),
        (
            [stage("a", earlier_weight=0.3), stage("b")],
            {"groups": GROUPS},
            r"stages\[0\]\.earlier_weight: has nothing to weigh",
        ),
        ([stage("a")], {"groups": GROUPS, "judge": {"kind": "certainty"}}, r"judge: is of no use"),
        ([stage("a@512")], {"groups": GROUPS}, r"stages\[0\]\.name: is 'a@512', which is no name"),
    ],
)
def test_what_does_not_fit_is_told(
    tmp_path: Path, stages: list[dict[str, Any]], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        read(tmp_path, stages, **more)


def test_an_exit_behind_a_layer_is_a_stage_of_its_group(tmp_path: Path) -> None:
    policies = json.loads(json.dumps(PAIRS).replace('"a"', '"a@layer-2/0.9"'))
    groups = [{"name": "g", "policies": policies}]
    read(tmp_path, [stage("a@layer-2/0.9"), stage("a")], groups=groups, names=["a@layer-2/0.9", "a"])


def test_a_threshold_of_classifiers_needs_no_judge(tmp_path: Path) -> None:
    read(tmp_path, [stage("a", threshold=40), stage("b")], groups=GROUPS)
