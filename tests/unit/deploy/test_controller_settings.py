"""The controller reads what the chart writes, with the options that its pods have."""

from pathlib import Path
from typing import Any

import pytest

from cascadia.controller.settings.file import read_controller_file
from tests.unit.deploy.chart import by_us


def objects(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings in the controller's ConfigMap, and its pods' template."""
    found = by_us(name).values()
    (config,) = [o["data"] for o in found if "controller.yaml" in o.get("data", {})]
    (template,) = [
        o["spec"]["template"]
        for o in found
        if o["kind"] == "Deployment" and o["metadata"]["name"].endswith("controller")
    ]
    return config, template


@pytest.mark.parametrize(
    ("name", "cooldown_s", "at_once"), [("a controller", 1800, 32), ("a controller with all", 3600, 4)]
)
def test_the_controller_takes_its_settings(
    name: str, cooldown_s: float, at_once: int, tmp_path: Path
) -> None:
    config, template = objects(name)
    (tmp_path / "controller.yaml").write_text(config["controller.yaml"])
    found = read_controller_file(tmp_path / "controller.yaml", {})
    assert (found.moves.cooldown_s, found.moves.at_once) == (cooldown_s, at_once)
    (container,) = template["spec"]["containers"]
    assert "--settings=/etc/cascadia/controller.yaml" in container["args"]
    assert "/etc/cascadia" in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_other_settings_are_other_pods() -> None:
    plain, tuned = [objects(name)[1] for name in ("a controller", "a controller with all")]
    digests = [template["metadata"]["annotations"]["cascadia/settings"] for template in (plain, tuned)]
    assert digests[0] != digests[1]
