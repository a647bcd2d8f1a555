"""A plan's judge on this machine: what it is called, and how one that needs no GPU is started."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.local.launch import COMMAND, PORT, Launch, spec_of
from cascadia.controller.move.state import JUDGE, Kind, judge_stage
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.render.engine_groups import SHORTEST_DRAIN_S
from cascadia.render.one_pass import exit_arguments

STARTUP_S = 900.0
"""It may have to fetch its encoder first."""


def stage_of_judge(plan: Plan, engine: Engine | None) -> str:
    """One for all shapes of a judge: what scores differently is another."""
    judge = plan.judge
    what = (
        (judge.engine, judge.model, judge.weights, judge.quantization) if engine is None else engine.command
    )
    return judge_stage(spec_of(tuple(map(str, what)), {}))


def model_of_judge(plan: Plan, engine: Engine | None) -> str:
    """Model name by which the judge's engine calls it. It is the judge's own name, so that the router keeps no
    verdicts of another.
    """
    if engine is not None:
        return engine.model or JUDGE
    return plan.judge.model or JUDGE


def embedding_judge(plan: Plan, engine: Engine | None) -> Launch:
    """`cascadia judge serve` on the file that the spec names, beside the router; it takes no GPU."""
    if engine is not None:
        argv, env = tuple(engine.command), dict(engine.env)
        times = engine.health_path, engine.startup_s, engine.drain_s
    elif plan.judge.model is not None:
        exits = () if plan.judge.exits is None else exit_arguments(plan.judge.exits)
        argv, env = (*COMMAND, "judge", "serve", plan.judge.model, "--port", PORT, "--quiet", *exits), {}
        times = "/health", STARTUP_S, float(SHORTEST_DRAIN_S)
    else:
        raise BadInput(
            "plan: judge",
            "is of kind embedding, and nothing says what it has learned",
            "write judge: {model: FILE} of `cascadia judge train` into the spec, or router: {judge: {...}} into "
            "--engines local.yaml",
        )
    asked_rps = sum(stage.rate_rps for stage in plan.predicted.stages[:-1])
    spec = spec_of(argv, env)
    kind = Kind(stage_of_judge(plan, engine), JUDGE, 0, spec)
    return Launch(kind, argv, env, False, *times, capacity_rps=max(asked_rps, 1e-6))


def probed_stage(plan: Plan, local: Local, router: Mapping[str, Any]) -> str | None:
    """The stage whose engines are started behind the plan's probe; None where there is none, or the commands in `local`
    start one themselves. Raises `BadInput` where verdicts would fail, one by one.
    """
    told = router.get("judge", {}).get("kind")
    if not plan.judges or "probe" not in (plan.judge.kind, told):
        return None
    gated = [stage.name for stage in plan.stages if stage.deployed][:-1]
    ours = [name for name in gated if name not in local.stages]
    if not ours and told == "probe":
        return None
    if not ours:
        raise BadInput(
            "plan: judge",
            f"is of kind probe, and nothing says that the command of {gated[0]} starts one",
            "write router: {judge: {kind: probe}} into --engines local.yaml",
        )
    if plan.judge.kind != "probe" or plan.judge.model is None or told not in (None, "probe"):
        raise BadInput(
            "plan: judge",
            f"nothing says what probe reads the states of {ours[0]}",
            "write judge: {kind: probe, model: FILE} of `cascadia judge train --probe` into the spec",
        )
    if len(ours) > 1:
        raise BadInput(
            "plan: judge",
            f"a probe reads the states of one model, and {' and '.join(ours)} are gated",
            "name commands that start a probe for the others in --engines local.yaml",
        )
    if not Path(plan.judge.model).is_file():
        raise BadInput(
            f"plan: judge: {plan.judge.model}", "no such file", "train it with `cascadia judge train --probe`"
        )
    return ours[0]


def behind_probe(file: str, engine: Sequence[str]) -> tuple[str, ...]:
    """Command of a probe that starts `engine`, and answers at the port that would have been its own."""
    pairs = list(zip(("", *engine), engine, strict=False))
    kept = [each for before, each in pairs if not {before, each} & {"--host", "--port"}]
    return (*COMMAND, "judge", "serve", file, "--port", PORT, "--quiet", "--", *kept)
