"""The chart, rendered by Helm and by us."""

import json
import os
import subprocess
from functools import cache
from typing import Any

from cascadia.files.strict_yaml import parse_yaml
from cascadia.render.kubernetes import BUILT_IN, Release, objects
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.yaml_text import yaml_text
from tests.data import ROOT
from tests.unit.deploy.helm_binary import binary
from tests.unit.deploy.matrix import MATRIX, Case
from tests.unit.render.reading import documents

CHART = ROOT / "deploy" / "helm" / "cascadia"

Object = dict[str, Any]
Key = tuple[str, str, str]
LONGEST_S = 60


def run_helm(major: int, *arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Values come by standard input: nothing is written."""
    return subprocess.run(
        [str(binary(major)), *arguments, "-f", "-"],
        input=yaml_text([values]),
        env={**os.environ, "GOGC": "off"},  # a quarter of its CPU went to collecting its garbage
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )


def template(major: int, case: Case) -> subprocess.CompletedProcess[str]:
    apis = [argument for api in case.more_apis for argument in ("--api-versions", api)]
    named = ["template", case.release, str(CHART), "--skip-tests", "--namespace", case.namespace]
    return run_helm(major, *named, *apis, values=case.values)


@cache
def by_helm(major: int, name: str) -> dict[Key, Object]:
    done = template(major, MATRIX[name])
    assert done.returncode == 0, done.stderr
    return _by_key([o for o in documents(done.stdout) if o])


@cache
def by_us(name: str) -> dict[Key, Object]:
    case = MATRIX[name]
    release = Release(
        merged(defaults(), case.values), case.release, case.namespace, BUILT_IN | set(case.more_apis)
    )
    # Through JSON, as tuples and shared values do not survive it.
    return _by_key(json.loads(json.dumps(list(objects(release)))))


def _by_key(found: list[Object]) -> dict[Key, Object]:
    keyed = {(o["apiVersion"], o["kind"], o["metadata"]["name"]): o for o in found}
    assert len(keyed) == len(found), "two objects have one name"
    return keyed


def router_settings(found: dict[Key, Object]) -> Object:
    """The router.yaml in the router's ConfigMap."""
    (text,) = [o["data"]["router.yaml"] for o in found.values() if "router.yaml" in o.get("data", {})]
    loaded = parse_yaml(text, "router.yaml")
    assert isinstance(loaded, dict)
    return loaded
