"""Processes that a plan asks for: an engine for each replica, the judge, the router in front."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Child, Children
from cascadia.demo.measuring.replay import warm_up
from cascadia.demo.stages import ENCODER, HEAD, LARGE, SLOTS, STAGES, cascadia_command, cores, engine_command
from cascadia.domain.plan import Plan
from cascadia.render.compose.router_file import router_document

JUDGE = "judge"
ROUTER_FILE = "router.yaml"


@dataclass(frozen=True, slots=True)
class Fleet:
    """`engines` by stage: planned ones, and one of a stage that the plan leaves out, so that it can be asked alone."""

    engines: Mapping[str, Sequence[Child]]
    unplanned: frozenset[str]
    judge: Child | None
    router: Child

    def url_of(self, model: str) -> str:
        """The router's, unless it does not know `model`."""
        return self.engines[model][0].url if model in self.unplanned else self.router.url

    def cpu_s(self, names: Sequence[str]) -> dict[str, float]:
        """Processor seconds since they were started, of stages or the judge."""
        spent = {name: sum(engine.cpu_s for engine in engines) for name, engines in self.engines.items()}
        if self.judge is not None:
            spent[JUDGE] = self.judge.cpu_s
        return {name: spent[name] for name in names}


def start_fleet(
    children: Children,
    plan: Plan,
    plan_folder: Path,
    weights: Mapping[str, Path],
    port: int,
    api: Child | None = None,
) -> Fleet:
    """Starts the fleet and does not wait. `weights` by the catalogue's names; `port` of the router, 0 for a
    free one. `api`: the large model, which serves already.
    """
    core = iter(cores())
    engines: dict[str, list[Child]] = {}
    unplanned = set()
    for stage, planned in zip(STAGES, plan.stages, strict=True):
        count = sum(group.count for group in planned.replicas)
        if not planned.deployed:
            unplanned.add(stage.name)
        if api is not None and stage is LARGE:
            engines[stage.name] = [api]
            continue
        engines[stage.name] = []
        for number in range(max(1, count)):
            at = free_port()
            command = engine_command(stage, weights[stage.catalogue_name], at)
            name = f"{stage.name}-{number}" if count > 1 else stage.name
            engines[stage.name].append(children.start(name, command, at, next(core, None)))
    judge = None
    if not unplanned:
        at = free_port()
        judge = children.start(JUDGE, _judge_command(weights[ENCODER], at), at)
    at = port or free_port()
    planned_urls = {
        stage.name: [engine.url for engine in engines[stage.name]] for stage in plan.stages if stage.replicas
    }
    document = router_document(plan, planned_urls, judge.url if judge else None, at)
    file = plan_folder / ROUTER_FILE
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    router = children.start("router", cascadia_command("serve", str(file), "--quiet"), at)
    return Fleet(engines, frozenset(unplanned), judge, router)


async def warm_up_all(fleet: Fleet) -> None:
    """Each engine's slots get the beginning of its prompts."""
    for stage, engines in fleet.engines.items():
        for engine in engines:
            await warm_up(engine.url, stage, SLOTS)


def _judge_command(encoder: Path, port: int) -> list[str]:
    return cascadia_command(
        "judge", "serve", str(HEAD), "--encoder", str(encoder), "--port", str(port), "--quiet"
    )
