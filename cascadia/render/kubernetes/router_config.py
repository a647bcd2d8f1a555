"""`router.yaml` of a release: docs/reference/router.md has its keys."""

from typing import Any

from cascadia.domain.plan import MOST_PLACES
from cascadia.render.kubernetes.chart_values import Values, merged
from cascadia.render.kubernetes.containers import HTTP_PORT
from cascadia.render.kubernetes.engines.units import Unit
from cascadia.render.kubernetes.engines.workloads import reached
from cascadia.render.kubernetes.release import Release

JUDGE_KEY = "CASCADIA_JUDGE_KEY"
"""Variable of the router's container with the key of a judge elsewhere."""

SAMPLES_TOKEN = "CASCADIA_SAMPLES_TOKEN"
"""Of routers' and controllers' containers: what opens the routers' workload logs, where they share no volume."""


def router_config(release: Release) -> dict[str, Any]:
    """An entry of replicas is the headless Service of a group: each of its pods is a replica."""
    router = release.values["router"]
    judge = _judge(release)
    known = release.values["cascade"]["stages"]
    gears = release.values["cascade"].get("gears")
    under_load = release.values["cascade"].get("underLoad")
    unit = release.values["cascade"].get("costUnit")
    config = {
        "cascade": release.values["cascade"]["name"],
        "stages": _stages(release),
        **({"names": known} if known else {}),
        **({"mixture": mixture} if (mixture := release.values["cascade"].get("mixture")) else {}),
        **({"gears": gears} if gears else {}),
        **({"under_load": under_load} if under_load else {}),
        **({"exits": exits} if (exits := release.values["cascade"].get("exits")) else {}),
        **({"cost_unit": unit} if unit else {}),
        **({"planned": planned} if (planned := release.values["cascade"].get("planned")) else {}),
        **({"judge": judge} if judge else {}),
        "host": "0.0.0.0",
        "port": HTTP_PORT,
        "limits": {"drain_notice_s": router["noticeSeconds"], "drain_s": router["drainSeconds"]},
        "health": {"startup_s": release.values["engines"]["startupSeconds"]},
        **_samples(release.values["controller"]),
    }
    return merged(config, router["config"])


def hands_out_samples(controller: Values) -> bool:
    """Tells whether routers are asked for their workload logs."""
    samples = controller["samples"]
    return bool(controller["enabled"] and samples["secretName"] and not samples["claimName"])


def _samples(controller: Values) -> dict[str, Any]:
    """The controller reads the workload log, so its files end soon."""
    if not controller["enabled"]:
        return {}
    token = {"token_env": SAMPLES_TOKEN} if hands_out_samples(controller) else {}
    return {"samples": {"folder": "/data", "seconds": 30, **token}}


def routers(values: Values) -> int:
    """Most routers that there may be at a time."""
    scaling = values["router"]["autoscaling"]
    return int(scaling["maxReplicas"] if scaling["enabled"] else values["router"]["replicas"])


def _stages(release: Release) -> list[dict[str, Any]]:
    """The stages in the cascade's order, those elsewhere among them."""
    found = [_stage(release, stage) for stage in release.values["stages"]]
    elsewhere = [_elsewhere(release, stage) for stage in release.values["externalStages"]]
    order = release.values["cascade"]["stages"]
    return sorted([*found, *elsewhere], key=lambda stage: order.index(stage["name"])) if elsewhere else found


def _elsewhere(release: Release, stage: dict[str, Any]) -> dict[str, Any]:
    """Somebody else's API. Each router sends its part of what is allowed in a minute."""
    most = stage["requestsPerMinute"]
    found = {
        "name": stage["servedModelName"],
        "model": stage["model"],
        "threshold": stage["threshold"],
        "max_model_len": stage["maxModelLen"],
        "replicas": [
            {
                "url": stage["url"],
                "health_path": None,
                **({"api_key_env": stage["apiKeyEnv"]} if stage["apiKeyEnv"] else {}),
                **({"requests_per_minute": max(1, most // routers(release.values))} if most else {}),
            }
        ],
        **({"skip_below": stage["skipBelow"]} if stage.get("skipBelow") else {}),
    }
    return merged(found, stage["routing"])


def _stage(release: Release, stage: Unit) -> dict[str, Any]:
    found = {
        "name": stage["servedModelName"],
        "threshold": stage["threshold"],
        "max_model_len": stage["maxModelLen"],
        "replicas": _replicas(release, stage),
        **({"skip_below": stage["skipBelow"]} if stage.get("skipBelow") else {}),
        **({"cost": stage["cost"]} if stage.get("cost") else {}),
    }
    return merged(found, stage["routing"])


def _replicas(release: Release, unit: Unit) -> list[dict[str, Any]]:
    gears = release.values["cascade"].get("gears")
    return [
        {
            "url": f"http://{release.named(name)}:{HTTP_PORT}",
            "resolve": "dns",
            "share": float(f"{group['share'] / max(1, group['replicas']):.6g}"),
            "max_concurrency": min(unit["maxConcurrency"], MOST_PLACES),
            **({"planned": group["replicas"]} if gears and group["replicas"] > 1 else {}),
            **group.get("learns", {}),
        }
        for name, _, group in reached(release, unit)
    ]


def _judge(release: Release) -> dict[str, Any]:
    """Empty where nobody is asked, whatever `judge.url` says: a next plan may ask again. `model` is of llm judges."""
    judge = release.values["judge"]
    if judge["kind"] == "none":
        return {}
    common = {"kind": judge["kind"], "timeout_s": judge["timeoutSeconds"], "on_failure": judge["onFailure"]}
    called = {"model": name} if judge["kind"] == "llm" and (name := judge.get("servedModelName")) else {}
    if judge["groups"]:
        return {**common, **called, "replicas": _replicas(release, judge)}
    if judge["kind"] == "certainty":
        return common
    if judge["url"] or judge["kind"] == "llm":
        key = {"api_key_env": JUDGE_KEY} if judge["apiKey"]["secretName"] else {}
        elsewhere = {"url": judge["url"], "health_path": None, **key}
        return {**common, **called, "replicas": [elsewhere]}
    return {**common, "replicas": [{"url": f"http://{release.named(judge['name'])}:{HTTP_PORT}"}]}
