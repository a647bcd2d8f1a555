"""The demo's two stages: which model of the catalogue each runs, and how."""

import os
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from cascadia.clients.hub.catalogue import CatalogueModel, model_named
from cascadia.clients.processes import llama_server
from cascadia.render.engine_args import Launch, arguments
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig

CORES = 2
SLOTS = 2
"""Sequences at once. On one core more of them answer no more questions a second."""
BATCH_TOKENS = 2048
CONTEXT = 1024
PREFIX_TOKENS = 200
"""Of the examples that every request of a stage begins with, at least; engines find them in their prefix cache."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`architecture` is the model's id in the simulator's catalogue."""

    name: str
    catalogue_name: str
    architecture: str
    parameters: float

    @property
    def model(self) -> CatalogueModel:
        return model_named(self.catalogue_name)

    @property
    def quantization(self) -> str:
        return (self.model.quantization or "").lower()

    @property
    def template(self) -> Path:
        """Template of its chats: how it is told to answer, with examples."""
        return Path(str(files("cascadia.demo").joinpath("data", f"{self.name}.jinja")))

    def file(self, weights: Path) -> Path:
        """Weights file of its model in the folder `weights`."""
        return weights / self.model.files[0].name


SMALL = Stage("small", "smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct", 135e6)
LARGE = Stage("large", "qwen2.5-coder-0.5b", "Qwen/Qwen2.5-Coder-0.5B-Instruct", 494e6)
STAGES = (SMALL, LARGE)
ENCODER = "minilm-l6-v2"
KEY_ENV = "CASCADIA_DEMO_KEY"
"""Variable that holds the key of the large model where that is an API."""
HEAD = Path(str(files("cascadia_judge").joinpath("data", "demo_head.json")))
"""What the embedding judge has learned of the small model."""


def engine_config(stage: Stage, context: int = CONTEXT) -> EngineConfig:
    """`context` tokens for each of `SLOTS` sequences."""
    return EngineConfig(
        engine=LLAMA_CPP,
        max_num_seqs=SLOTS,
        max_num_batched_tokens=BATCH_TOKENS,
        block_size=1,
        quantization=stage.quantization,
        max_model_len=context,
    )


def engine_command(
    stage: Stage, weights: Path, port: int, context: int = CONTEXT, *, bare: bool = False
) -> list[str]:
    """Command as `cascadia up` starts it, with the stage's own chat template; `bare`: with the model's."""
    file, config = str(stage.file(weights)), engine_config(stage, context)
    launch = Launch(
        LLAMA_CPP,
        stage.architecture,
        file,
        served_name=stage.name,
        config=config,
        gpu=gpu("cpu"),
        tp=1,
        pp=1,
        host="127.0.0.1",
        port=port,
        drain_s=0,
    )
    template = [] if bare else ["--chat-template-file", str(stage.template)]
    return [sys.executable, llama_server.__file__, *arguments(launch), *template]


def cascadia_command(*args: str) -> list[str]:
    """The command line of this very installation."""
    return [sys.executable, "-P", "-c", "from cascadia.cli.main import main; main()", *args]


def cores() -> list[int]:
    """Cores that we may use."""
    return sorted(os.sched_getaffinity(0))


def free_cores() -> dict[str, int | None]:
    """A core for each stage, by name; None where there are too few."""
    there = iter(cores())
    return {stage.name: next(there, None) for stage in STAGES}
