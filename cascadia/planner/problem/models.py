"""The models that a spec names, looked up: architectures and the settings of their engines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.points import Exit
from cascadia.domain.problem import EXTERNAL, Stage
from cascadia.files.homes import named_path
from cascadia.planner.problem.api_times import api_times
from cascadia.planner.problem.calibration import calibration_path, stage_calibration
from cascadia.planner.spec.models import (
    BUDGET_FIELDS,
    LLAMA_CPP_LIMITS,
    EngineOptions,
    SpeculationSpec,
    StageSpec,
)
from cascadia_sim import errors as sim_errors
from cascadia_sim.iteration.engine_config import LLAMA_CPP, TRTLLM, EngineConfig
from cascadia_sim.iteration.speculation import Speculation
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.config_json import read_architecture
from cascadia_sim.models.own_drafts import drafts_itself

_PATH_STARTS = ("./", "../", "/", "~")
_LLAMA_CPP = {**LLAMA_CPP_LIMITS, "block_size": 1}
"""Its own defaults. A slot's cache is one piece, so that nothing is lost to blocks."""

_TRTLLM_BLOCK = 32
"""Its default `tokens_per_block`."""


def build_stages(specs: tuple[StageSpec, ...], folder: Path, file: str) -> tuple[Stage, ...]:
    return tuple(_stage(spec, folder, f"{file}: stages[{index}]") for index, spec in enumerate(specs))


def find_architecture(model: str, folder: Path, where: str) -> Architecture:
    """Architecture from the config.json that `model` is the path of, or from the catalogue by name."""
    path = config_path(model, folder)
    if path is None:
        with told_at(where):
            return architecture(model)
    try:
        return read_architecture(path)
    except sim_errors.BadInput as error:
        raise BadInput(f"{where}: {error.where}", error.what, error.instead) from None


def config_path(model: str, folder: Path) -> Path | None:
    """The config.json that `model` names; None where it is a name and not a path."""
    try:
        path = named_path(folder, model) if model.startswith("~") else folder / model
        if path.is_dir():
            return path / "config.json"
    except OSError:  # a name too long for a file
        return None
    return path if model.endswith(".json") or model.startswith(_PATH_STARTS) else None


def engine_config(spec: EngineOptions, found: Architecture, folder: Path, where: str) -> EngineConfig:
    """The engine settings of `spec`; `where` is the place of the section that they stand in."""
    if spec.max_model_len is not None and spec.max_model_len > found.max_position:
        raise BadInput(
            f"{where}.max_model_len",
            f"{spec.max_model_len} is beyond the model's own context of {found.max_position} tokens",
            "write at most that",
        )
    path = calibration_path(spec.calibration, folder)
    measured = stage_calibration(path, spec.engine, spec.quantization, found, f"{where}.calibration")
    settings = spec.model_dump(include=set(EngineOptions.model_fields) - {"calibration", "weights"})
    if spec.engine == LLAMA_CPP:
        settings |= {name: n for name, n in _LLAMA_CPP.items() if name not in spec.model_fields_set}
        # Its slots take their cache when it starts, so the longest request must be known.
        settings["max_model_len"] = spec.max_model_len or found.max_position
    if spec.engine == TRTLLM:
        settings["block_size"] = _TRTLLM_BLOCK
    return EngineConfig(**settings, calibration=measured)


def leaves_batch_tokens(spec: EngineOptions) -> bool:
    """Tells whether the planner chooses `max_num_batched_tokens`: where the spec does not, and prompts are read
    in pieces.
    """
    return (
        "max_num_batched_tokens" not in spec.model_fields_set
        and spec.enable_chunked_prefill
        and spec.engine != LLAMA_CPP
    )


def find_weights(weights: str | None, folder: Path) -> str | None:
    """An absolute path where it is one, so that the plan can be used from anywhere; else a hub's id as it is."""
    if weights is None or not (weights.endswith(".gguf") or weights.startswith(_PATH_STARTS)):
        return weights
    return str(named_path(folder, weights).absolute())


@contextmanager
def told_at(where: str) -> Iterator[None]:
    """A catalogue's refusal, told at the place of the spec that caused it."""
    try:
        yield
    except sim_errors.BadInput as error:
        raise BadInput(where, error.what, error.instead) from None


def _external(spec: StageSpec, folder: Path, where: str) -> Stage:
    """A stage that is somebody else's API."""
    assert spec.latency is not None
    times = api_times(spec.latency, folder, f"{where}.latency")
    api = External(
        spec.usd_per_million_input_tokens or 0.0,
        spec.usd_per_million_output_tokens or 0.0,
        ttft_p50_s=times.ttft_p50_s,
        ttft_p95_s=times.ttft_p95_s,
        tpot_p50_s=times.tpot_p50_s,
        tpot_p95_s=times.tpot_p95_s,
        requests_per_minute=spec.requests_per_minute,
        base_url=spec.base_url,
        api_key_env=spec.api_key_env,
    )
    config = EngineConfig(max_model_len=spec.max_model_len)
    return Stage(
        spec.name,
        spec.model,
        None,
        engine=EXTERNAL,
        quantization=None,
        config=config,
        external=api,
        max_tokens=spec.max_tokens,
        exits=tuple(Exit(each.thinking_tokens, each.foreseen) for each in spec.exits),
    )


def _stage(spec: StageSpec, folder: Path, where: str) -> Stage:
    if spec.placement == "external":
        return _external(spec, folder, where)
    found = find_architecture(spec.model, folder, f"{where}.model")
    config = engine_config(spec, found, folder, where)
    if spec.speculation is not None:
        config = replace(
            config,
            speculation=_speculation(spec.speculation, spec.model, found, folder, f"{where}.speculation"),
        )
    weights = find_weights(spec.weights, folder)
    return Stage(
        spec.name,
        spec.model,
        found,
        engine=spec.engine,
        quantization=spec.quantization,
        config=config,
        weights=weights,
        searches_batch_tokens=leaves_batch_tokens(spec),
        may_draft=config.speculation,
        balancing=spec.balancing,
        max_tokens=spec.max_tokens,
        exits=tuple(Exit(each.thinking_tokens, each.foreseen) for each in spec.exits),
        budget_field=BUDGET_FIELDS[spec.engine] if spec.exits_by == "question" else None,
    )


def _whole_path(model: str, folder: Path) -> str:
    """Absolute path of the config.json that `model` names; a name as it is."""
    path = config_path(model, folder)
    return model if path is None else str(path.absolute())


def _speculation(
    spec: SpeculationSpec, model: str, found: Architecture, folder: Path, where: str
) -> Speculation:
    if spec.method == "mtp" and not drafts_itself(_whole_path(model, folder)):
        raise BadInput(
            f"{where}.method",
            f"is mtp, and {model} has no layers of its own that draft",
            "write ngram, draft_model or eagle3",
        )
    if spec.method != "draft_model" or spec.model is None:
        return Speculation(spec.method, spec.tokens, spec.acceptance, find_weights(spec.model, folder))
    draft = find_architecture(spec.model, folder, f"{where}.model")
    if draft.parameters >= found.parameters:
        raise BadInput(
            f"{where}.model", f"{spec.model} is no smaller than what it drafts for", "name a smaller model"
        )
    if draft.vocab != found.vocab:
        raise BadInput(
            f"{where}.model",
            f"its vocabulary has {draft.vocab:,} tokens, that of the stage's model {found.vocab:,}",
            "name a model of the same family",
        )
    path = config_path(spec.model, folder)
    loaded = spec.model if path is None else str(path.absolute().parent)
    return Speculation(spec.method, spec.tokens, spec.acceptance, loaded)
