"""Notes on what a person must know or do before the rendered plan can run."""

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Deployed, Plan
from cascadia.render.engine_groups import bounds_thinking
from cascadia.render.models import is_path, is_quantised, mounted_weights, weights
from cascadia.render.one_pass import in_one_pass
from cascadia_sim.iteration.engine_config import TRTLLM

FROM_CHECKPOINT = ("awq-int4", "gptq-int4", "int8", "int4-experts", "mxfp4", "nvfp4", "nvfp4-experts")
"""Formats that engines read from a checkpoint and do not make from BF16 weights."""


def notes(plan: Plan) -> tuple[str, ...]:
    """One line each, in the plan's order."""
    units: list[tuple[str, Deployed]] = [(f"stage {s.name}", s) for s in plan.stages]
    if in_one_pass(plan):
        return ()
    found = []
    for name, unit in [*units, ("judge", plan.judge)]:
        if unit.gpus and unit.model:
            found += _notes(name, unit, unit.weights or unit.model)
        if unit.gpus and unit.engine == "sglang" and bounds_thinking(unit):
            found.append(
                f"{name}: SGLang ignores the router's budgets of thought unless it is started with "
                "--reasoning-parser=NAME (the model's) and --enable-strict-thinking: add both to its arguments"
            )
    if plan.asks_judge and plan.judge.kind == "llm" and not plan.judge.gpus:
        found.append("judge: it runs elsewhere: set judge.url in the values of the chart, or with --values")
    if plan.foresight is not None:
        found.append(
            "foresight: the plan goes by what its heads tell of a question: serve their file (`cascadia judge serve`), "
            "and set router.config.foresight: {replicas: [{url: ...}]} in the values of the chart, or with --values"
        )
    if plan.asks_judge and plan.judge.exits is not None:
        found.append(
            "judge: in containers its exits need the ramp of `cascadia judge train-exits` as head.json.exits beside "
            "head.json; where that folder is read-only, what is certified ends with the process"
        )
    return tuple(found)


def probes_refused(what: str) -> BadInput:
    """Refusal to start engines that a probe would have to stand in front of."""
    return BadInput(
        "plan: judge",
        f"is of kind probe, and {what}",
        "start engines and probes yourself (`cascadia judge serve`), and `cascadia serve PLAN --endpoint STAGE=URL`",
    )


def _notes(name: str, unit: Deployed, model: str) -> list[str]:
    found = []
    if is_path(model):
        where = "beside" if model.endswith(".json") else "at"
        found.append(
            f"{name}: weights are expected {where} {model}; in containers as {mounted_weights(model)} "
            "(claim cascadia-models in Kubernetes, ./models in compose)"
        )
    trtllm = unit.engine == TRTLLM
    reads = "TensorRT-LLM reads" if trtllm else "engines only read"
    if unit.quantization in (*FROM_CHECKPOINT, *(("fp8",) if trtllm else ())) and not is_quantised(model):
        found.append(
            f"{name}: planned with {unit.quantization}, which {reads} from a checkpoint: "
            f"replace {weights(model)} by one that is quantised so (weights: in the spec)"
        )
    return found
