"""The whole compose file. On one node `docker compose up` gives an endpoint: engines, judge and router."""

from collections.abc import Sequence
from typing import Any

from cascadia import __version__
from cascadia.domain.plan import Plan
from cascadia.render.compose.engines import engine_services
from cascadia.render.compose.router_file import replicas_document, router_document
from cascadia.render.engine_groups import JUDGE as SERVED_JUDGE
from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import HTTP_PORT
from cascadia.render.kubernetes.chart_values import defaults
from cascadia.render.notes import probes_refused
from cascadia.render.one_pass import exit_arguments
from cascadia.render.processes import LOOPBACK, Process, node_names, processes
from cascadia.render.yaml_text import yaml_text

ROUTER, JUDGE = "router", "judge-service"
ROUTER_IMAGE = f"${{CASCADIA_ROUTER_IMAGE:-cascadia/router:{__version__}}}"
JUDGE_IMAGE = f"${{CASCADIA_JUDGE_IMAGE:-cascadia/judge:{__version__}}}"
JUDGE_URL = "${CASCADIA_JUDGE_URL:?set it to the address of the judge, without /v1}"
JUDGE_KEY = "CASCADIA_JUDGE_KEY"
CONFIG = "/etc/cascadia/router.yaml"


def compose_yaml(plan: Plan, groups: Sequence[EngineGroup]) -> str:
    services = engine_services(groups)
    if not has_router(plan, groups):
        return yaml_text([{"name": "cascadia", "services": services}])
    document = _router_document(plan, list(processes(groups)))
    ours = {ROUTER: _router(plan, services), **({JUDGE: _judge(plan)} if _embeds(plan) else {})}
    # Compose fills in $NAME itself; only the judge's address is meant to be.
    text = yaml_text([document]).replace("$", "$$").replace(JUDGE_URL.replace("$", "$$"), JUDGE_URL)
    configs = {ROUTER: {"content": text}}
    return yaml_text([{"name": "cascadia", "services": {**services, **ours}, "configs": configs}])


def has_router(plan: Plan, groups: Sequence[EngineGroup]) -> bool:
    """False where engines are on several nodes, an API's address is not known, or heads tell of the question alone."""
    known = all(s.external is None or s.external.base_url is not None for s in plan.stages)
    return len(node_names(groups)) <= 1 and known and not plan.foresight


def _embeds(plan: Plan) -> bool:
    return plan.asks_judge and plan.judge.kind == "embedding"


def _router_document(plan: Plan, running: Sequence[Process]) -> dict[str, Any]:
    """`router.yaml`, with engines at their services' names."""
    urls: dict[str, list[str]] = {}
    for process in running:
        urls.setdefault(process.group.served_name, []).append(f"http://{process.name}:{HTTP_PORT}")
    document = router_document(plan, urls, None, HTTP_PORT) | {"host": "0.0.0.0"}
    judge = plan.judge
    if not plan.asks_judge:
        return document
    if judge.kind == "probe":
        raise probes_refused("compose starts no probes")
    if judge.kind == "llm":
        at = replicas_document(plan, SERVED_JUDGE, judge, urls.get(SERVED_JUDGE, ()))
        model = SERVED_JUDGE
        if not judge.replicas:
            model = judge.model or SERVED_JUDGE
            at = [{"url": JUDGE_URL, "health_path": None, "api_key_env": JUDGE_KEY}]
        return document | {"judge": {"kind": "llm", "model": model, "replicas": at}}
    if judge.kind == "embedding":
        return document | {
            "judge": {"kind": "embedding", "replicas": [{"url": f"http://{JUDGE}:{HTTP_PORT}"}]}
        }
    return document | {"judge": {"kind": judge.kind}}


def _router(plan: Plan, engines: dict[str, Any]) -> dict[str, Any]:
    """Starts with the engines, which load for minutes: it serves as soon as a stage is ready."""
    apis = [s.external.api_key_env for s in plan.stages if s.external is not None and s.external.api_key_env]
    judged = [JUDGE_KEY] if plan.judges and plan.judge.kind == "llm" and not plan.judge.replicas else []
    keys = {name: f"${{{name}:?}}" for name in dict.fromkeys([*apis, *judged])}
    return {
        "image": ROUTER_IMAGE,
        "command": ["serve", CONFIG],
        **({"environment": keys} if keys else {}),
        "configs": [{"source": ROUTER, "target": CONFIG}],
        "depends_on": [*engines, *([JUDGE] if _embeds(plan) else [])],
        "ports": [f"{LOOPBACK}:${{CASCADIA_PORT:-8000}}:{HTTP_PORT}"],
        **_confined(),
    }


def _judge(plan: Plan) -> dict[str, Any]:
    exits = plan.judge.exits
    return {
        "image": JUDGE_IMAGE,
        **(
            {}
            if exits is None
            else {"command": [*defaults()["judge"]["service"]["args"], *exit_arguments(exits)]}
        ),
        "volumes": ["${CASCADIA_JUDGE:?set it to the folder with head.json and encoder}:/judge:ro"],
        **_confined(),
    }


def _confined() -> dict[str, Any]:
    return {
        "read_only": True,
        "tmpfs": ["/tmp"],
        "security_opt": ["no-new-privileges:true"],
        "cap_drop": ["ALL"],
        "restart": "unless-stopped",
    }
