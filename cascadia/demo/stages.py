"""The demo's two stages: which model of the catalogue each runs, and how."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from cascadia.clients.model_catalogue import CatalogueModel, model_named

CORES = 2
SLOTS = 2
"""Sequences at once. On one core more of them answer no more questions a second."""
CONTEXT = 1024
PREFIX_TOKENS = 100
"""Of the four examples that every request begins with, at least; engines find them in their prefix cache."""


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


SMALL = Stage("small", "smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct", 135e6)
LARGE = Stage("large", "qwen2.5-coder-0.5b", "Qwen/Qwen2.5-Coder-0.5B-Instruct", 494e6)
STAGES = (SMALL, LARGE)
ENCODER = "minilm-l6-v2"


def engine_command(stage: Stage, weights: Path, port: int, context: int = CONTEXT) -> list[str]:
    """`context` tokens for each of `SLOTS` sequences."""
    file = weights / stage.model.files[0].name
    return [
        sys.executable,
        *("-m", "cascadia.demo.llama_server", str(file), stage.name),
        *(str(number) for number in (port, SLOTS, context)),
    ]


def cascadia_command(*args: str) -> list[str]:
    """The command line of this very installation."""
    return [sys.executable, "-c", "from cascadia.cli.main import main; main()", *args]


def cores() -> list[int]:
    """Those that we may use."""
    return sorted(os.sched_getaffinity(0))


def free_cores() -> dict[str, int | None]:
    """A core for each stage, by name; None where there are too few."""
    there = iter(cores())
    return {stage.name: next(there, None) for stage in STAGES}
