"""`local.yaml`: how this machine starts what a plan names, where that is not vLLM or SGLang with the planned flags."""

import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input
from cascadia.files.kinds import refuse_other
from cascadia.files.strict_yaml import parse_yaml
from cascadia.files.text import read_text

MAX_BYTES = 1_000_000


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Engine(_Section):
    command: list[str] = Field(
        min_length=1,
        description="Program and arguments; {port}, {name}, {gpus}, {python} and {here} (this file's folder) are "
        "filled in.",
    )
    env: dict[str, str] = Field(default_factory=dict)
    model: str | None = Field(None, description="Name that the engine calls it by; the stage's where absent.")
    health_path: str = Field("/health", pattern=r"^/[\x21-\x7e]*$", max_length=200)
    startup_s: float = Field(3600.0, gt=0)
    drain_s: float = Field(120.0, ge=0)
    max_concurrency: int | None = Field(None, ge=1, le=100_000)


class Local(_Section):
    """`router` is laid over the router.yaml that the plan gives: port, limits, keys, judge, samples, ..."""

    stages: dict[str, Engine] = Field(
        default_factory=dict, description="Engines by stage; `judge` for the judge."
    )
    router: dict[str, Any] = Field(default_factory=dict)


def read_local(path: Path | None) -> Local:
    """Reads the file; defaults where there is none. Raises `BadInput`, naming the key."""
    if path is None:
        return Local()
    document = parse_yaml(read_text(path, MAX_BYTES), str(path))
    refuse_other(document, "local", str(path))
    try:
        local = Local.model_validate(document)
    except ValidationError as error:
        raise bad_input(error, Local, str(path)) from None
    if "stages" in local.router:
        raise BadInput(f"{path}: router.stages", "comes from the plan", "leave it out")
    port = local.router.get("port", 1)
    if type(port) is not int or not 0 < port < 65536:
        raise BadInput(f"{path}: router.port", f"is {port!r}", "write a number from 1 to 65535")
    values = {"{python}": sys.executable, "{here}": str(path.parent.resolve())}
    stages = {name: _filled(engine, values) for name, engine in local.stages.items()}
    return local.model_copy(update={"stages": stages})


def _filled(engine: Engine, values: dict[str, str]) -> Engine:
    def fill(text: str) -> str:
        for mark, value in values.items():
            text = text.replace(mark, value)
        return text

    command = [os.path.expanduser(fill(text)) for text in engine.command]
    return engine.model_copy(update={"command": command, "env": {k: fill(v) for k, v in engine.env.items()}})
