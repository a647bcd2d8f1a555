"""The judge that a spec describes, with what had to be assumed about it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.domain.problem import Judge, Stage
from cascadia.files.homes import named_path
from cascadia.planner.problem.models import (
    engine_config,
    find_architecture,
    find_weights,
    leaves_batch_tokens,
)
from cascadia.planner.spec.models import ExitPromiseSpec, JudgeSpec
from cascadia_judge.llm.prompt import PROMPT_TOKENS
from cascadia_sim.iteration.engine_config import LLAMA_CPP


class _Verdict(NamedTuple):
    """Time of a verdict, as quantiles."""

    p50_s: float
    p95_s: float


# Where the spec does not say. An answer's certainty comes with its own logprobs.
_ASSUMED = {
    "external": _Verdict(0.5, 1.5),
    "embedding": _Verdict(0.02, 0.05),
    "probe": _Verdict(0.01, 0.03),
    "certainty": _Verdict(0.0, 0.0),
}


class JudgeRead(NamedTuple):
    judge: Judge
    notes: tuple[str, ...]


def build_judge(spec: JudgeSpec, folder: Path, file: str) -> JudgeRead:
    """`file` is the spec's name, for errors; relative paths start at `folder`."""
    match spec.runs:
        case "self-hosted":
            return JudgeRead(_self_hosted(spec, folder, f"{file}: judge"), ())
        case "external":
            return JudgeRead(_external(spec), _notes(spec))
        case "embedding" | "probe" | "certainty" as kind:
            return JudgeRead(_on_the_router(spec, kind, folder), spec.exits.notes if spec.exits else ())


def check_probe(judge: Judge, stages: Sequence[Stage], file: str) -> None:
    """Raises `BadInput` where a probe would have to read the states of an engine that shows none."""
    for at, stage in enumerate(stages if judge.kind == "probe" else ()):
        # The last stage's answers are not judged, but trials at its exits are.
        if (at < len(stages) - 1 or stage.exits) and stage.engine != LLAMA_CPP:
            raise BadInput(
                f"{file}: judge",
                f"is of kind probe, and stage {stage.name} runs on {stage.engine}, whose states it cannot read",
                f"write engine: {LLAMA_CPP}, or another judge",
            )


def _self_hosted(spec: JudgeSpec, folder: Path, where: str) -> Judge:
    model = spec.model or ""
    found = find_architecture(model, folder, f"{where}.model")
    return Judge(
        "llm",
        "self-hosted",
        model=model,
        architecture=found,
        quantization=spec.quantization,
        config=engine_config(spec, found, folder, where),
        engine=spec.engine,
        prompt_tokens=_prompt_tokens(spec),
        output_tokens=spec.output_tokens,
        weights=find_weights(spec.weights, folder),
        searches_batch_tokens=leaves_batch_tokens(spec),
    )


def _external(spec: JudgeSpec) -> Judge:
    verdict = _verdict(spec)
    return Judge(
        "llm",
        "external",
        model=spec.model,
        prompt_tokens=_prompt_tokens(spec),
        output_tokens=spec.output_tokens,
        latency_p50_s=verdict.p50_s,
        latency_p95_s=verdict.p95_s,
        usd_per_million_input_tokens=spec.usd_per_million_input_tokens,
        usd_per_million_output_tokens=spec.usd_per_million_output_tokens,
    )


def _on_the_router(spec: JudgeSpec, kind: Literal["embedding", "probe", "certainty"], folder: Path) -> Judge:
    verdict = _verdict(spec)
    head = None if spec.model is None else str(named_path(folder, spec.model).absolute())
    return Judge(
        kind,
        "router",
        model=head,
        latency_p50_s=verdict.p50_s,
        latency_p95_s=verdict.p95_s,
        exits=_exits(spec.exits, head),
    )


def _exits(exits: ExitPromiseSpec | None, head: str | None) -> ExitPromise | None:
    """Raises `BadInput` where there is no ramp to leave at."""
    if exits is None:
        return None
    if head is None:
        raise BadInput(
            "judge: exits", "the judge names no model", "add model: a file of `cascadia judge train`"
        )
    if not Path(f"{head}.exits").is_file():
        what = f"has no {Path(head).name}.exits beside it"
        raise BadInput(f"judge: exits: {head}", what, "train it with `cascadia judge train-exits`")
    return ExitPromise(exits.risk, exits.confidence, exits.shadow)


def _prompt_tokens(spec: JudgeSpec) -> int:
    return PROMPT_TOKENS if spec.prompt_tokens is None else spec.prompt_tokens


def _verdict(spec: JudgeSpec) -> _Verdict:
    if spec.latency_p50_s is None or spec.latency_p95_s is None:
        return _ASSUMED[spec.runs]
    return _Verdict(spec.latency_p50_s, spec.latency_p95_s)


def _notes(spec: JudgeSpec) -> tuple[str, ...]:
    notes = []
    if spec.latency_p50_s is None:
        p50_s, p95_s = _ASSUMED["external"]
        notes.append(
            f"the external judge's latency is assumed ({p50_s:g} s at p50, {p95_s:g} s at p95): "
            "set judge.latency_p50_s and judge.latency_p95_s"
        )
    if "usd_per_million_input_tokens" not in spec.model_fields_set:
        notes.append("the external judge counts as free: set judge.usd_per_million_input_tokens")
    return tuple(notes)
