"""`router.yaml`: pydantic at the edge. Unknown keys are errors that name the nearest known one."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from cascadia.domain.errors import BadInput
from cascadia.planner.spec_errors import bad_input
from cascadia.planner.spec_yaml import parse_yaml
from cascadia.planner.text_file import read_text
from cascadia.router.settings import (
    Balancing,
    Health,
    JudgeSettings,
    Limits,
    ReplicaSettings,
    RouterSettings,
    ShadowSettings,
    StageSettings,
)
from cascadia.router.settings_see import SamplesSection, ShadowSection, TracingSection

MAX_BYTES = 1_000_000
CASCADE = "cascadia"
JUDGE = "judge"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
"""What may stand in a header and in a metric's label."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=_NAME)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Replica(_Section):
    url: str = Field(description="http://host:port, without /v1.")
    share: Positive = 1.0
    max_concurrency: int = Field(256, ge=1, le=100_000)
    health_path: str | None = Field("/health", pattern=r"^/[\x21-\x7e]*$", max_length=200)
    api_key_env: str | None = Field(None, description="Variable that holds the engine's key.")


class _Stage(_Section):
    name: Name
    model: str | None = Field(None, description="As its engines serve it; the stage's name where absent.")
    replicas: list[_Replica] = Field(min_length=1)
    threshold: float = Field(0.0, ge=0, le=1000)
    max_model_len: int | None = Field(None, ge=1)
    balancing: Balancing = "least-outstanding"
    cost: float | None = Field(None, gt=0, description="Of a token, on any scale that all stages share.")


class _Judge(_Section):
    kind: Literal["llm", "certainty"]
    model: str | None = None
    replicas: list[_Replica] = Field(default_factory=list)
    timeout_s: Positive = 10.0
    on_failure: Literal["escalate", "accept"] = "escalate"
    reads_tokens: int = Field(8192, ge=16)
    cache_size: int = Field(4096, ge=0, le=10_000_000)


def _numbers(name: str, values: type[Limits] | type[Health]) -> type[_Section]:
    """A section with the fields and defaults of `values`, all of them numbers that are not negative."""
    members: dict[str, Any] = {}
    for field in fields(values):
        kind = int if isinstance(field.default, int) else float
        members[field.name] = (Annotated[kind, Field(ge=0)], field.default)
    return create_model(name, __base__=_Section, **members)


class _File(_Section):
    stages: list[_Stage] = Field(min_length=1, description="From small to large.")
    judge: _Judge | None = None
    cascade: Name = CASCADE
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    page: bool = Field(True, description="Whether /ui is served.")
    tracing: TracingSection | None = None
    samples: SamplesSection | None = None
    shadow: ShadowSection | None = None
    limits: _numbers("limits", Limits) = Field(default_factory=dict, validate_default=True)  # type: ignore[valid-type]
    health: _numbers("health", Health) = Field(default_factory=dict, validate_default=True)  # type: ignore[valid-type]


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> RouterSettings:
    """Raises `BadInput`, naming the key."""
    where = str(path)
    document = parse_yaml(read_text(path, MAX_BYTES), where)
    try:
        found = _File.model_validate(document)
    except ValidationError as error:
        raise bad_input(error, _File, where) from None
    stages = tuple(_stage(where, i, stage, environment) for i, stage in enumerate(found.stages))
    judge = found.judge
    settings = RouterSettings(
        stages=stages,
        judge=None if judge is None else _judge(where, judge, environment),
        names=tuple(stage.name for stage in stages),
        cascade=found.cascade,
        limits=Limits(**found.limits.model_dump()),
        health=Health(**found.health.model_dump()),
        host=found.host,
        port=found.port,
        page=found.page,
        tracing=found.tracing.settings() if found.tracing else None,
        samples=found.samples.settings(path.parent) if found.samples else None,
        shadow=found.shadow.settings() if found.shadow else ShadowSettings(),
    )
    check_settings(settings, where)
    return settings


def check_settings(settings: RouterSettings, where: str) -> None:
    """What must hold between the parts. Raises `BadInput`."""
    names = [stage.name for stage in settings.stages]
    for i, name in enumerate(names):
        if name in names[:i] or name in (settings.cascade, JUDGE):
            raise BadInput(
                f"{where}: stages[{i}].name", f"{name!r} is taken", "give each stage a name of its own"
            )
    needs = any(0 < stage.threshold <= 100 for stage in settings.stages[:-1])
    if needs and settings.judge is None:
        raise BadInput(
            f"{where}: judge",
            "is missing, and a threshold needs scores",
            "add a judge of kind llm or certainty",
        )
    if settings.shadow.ratio and settings.samples is None:
        raise BadInput(
            f"{where}: shadow", "has nowhere to write to", "add samples: {folder: samples}, or set ratio: 0"
        )
    if settings.shadow.ratio and settings.judge is None:
        raise BadInput(f"{where}: shadow", "has no judge whose scores it could write", "add a judge")
    if settings.judge is not None and settings.judge.kind == "llm" and settings.judge.stage is None:
        raise BadInput(f"{where}: judge.replicas", "is empty", "name the addresses of the judge's engine")


def check_url(url: str, where: str) -> str:
    """An engine's address, less a trailing slash or `/v1`. Raises `BadInput`."""
    address = url.rstrip("/").removesuffix("/v1")
    instead = "write e.g. http://127.0.0.1:8100"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise BadInput(where, f"{url!r} is no address", instead) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not address.isascii():
        raise BadInput(where, f"{url!r} is no address", instead)
    if parts.path or parts.query or parts.fragment or parts.username:
        raise BadInput(where, f"{url!r} has more than a host and a port", instead)
    return address


def _stage(where: str, index: int, stage: _Stage, environment: Mapping[str, str]) -> StageSettings:
    at = f"{where}: stages[{index}].replicas"
    return StageSettings(
        name=stage.name,
        model=stage.model or stage.name,
        replicas=_replicas(at, stage.replicas, environment),
        threshold=stage.threshold,
        max_model_len=stage.max_model_len,
        balancing=stage.balancing,
        cost=stage.cost,
    )


def _judge(where: str, judge: _Judge, environment: Mapping[str, str]) -> JudgeSettings:
    stage = None
    if judge.replicas:
        replicas = _replicas(f"{where}: judge.replicas", judge.replicas, environment)
        stage = StageSettings(JUDGE, judge.model or JUDGE, replicas)
    return JudgeSettings(
        judge.kind, stage, judge.timeout_s, judge.on_failure, judge.reads_tokens, judge.cache_size
    )


def _replicas(
    where: str, replicas: list[_Replica], environment: Mapping[str, str]
) -> tuple[ReplicaSettings, ...]:
    return tuple(
        ReplicaSettings(
            url=check_url(replica.url, f"{where}[{i}].url"),
            share=replica.share,
            max_concurrency=replica.max_concurrency,
            health_path=replica.health_path,
            api_key=_secret(replica.api_key_env, f"{where}[{i}].api_key_env", environment),
        )
        for i, replica in enumerate(replicas)
    )


def _secret(variable: str | None, where: str, environment: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    value = environment.get(variable, "").strip()
    if not value:
        raise BadInput(where, f"the variable {variable} is not set", "set it to the engine's key")
    if not value.isascii() or not value.isprintable():
        raise BadInput(where, f"the variable {variable} holds what no header can", "check the key")
    return value
