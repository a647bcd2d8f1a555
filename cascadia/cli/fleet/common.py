"""Parts that the commands for a running fleet share."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cascadia.domain.errors import BadInput

RUN_DIR = Path("cascadia-run")
CONTROLLER_LOCK = "controller.lock"
"""Held by whoever moves replicas, in the run-dir."""


def run_dir_option(command: Callable[..., None]) -> Callable[..., None]:
    """--run-dir, the folder with a fleet's state and logs."""
    return click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        help=f"Folder with the fleet's state and logs. Default: {RUN_DIR}.",
    )(command)


def engines_option(command: Callable[..., None]) -> Callable[..., None]:
    """--engines, of a command for a fleet that `cascadia up` began."""
    return click.option(
        "--engines",
        type=click.Path(path_type=Path),
        help="Path of the local.yaml that says how stages are started here. Default: `up`'s.",
    )(command)


def release_options(command: Callable[..., None]) -> Callable[..., None]:
    """--namespace and --release, of a fleet on Kubernetes."""
    named = click.option("--release", default="cascadia", show_default=True, help="Name of the Helm release.")
    space = click.option(
        "--namespace", help="Namespace of the Helm release. Default: that of the kubeconfig or the pod."
    )
    return space(named(command))


def plan_path(plan: Path) -> Path:
    """Path of the plan's file, where the folder with it was named."""
    return plan / "plan.json" if plan.is_dir() else plan


def engines_of(folder: Path, given: Path | None) -> Path | None:
    """The local.yaml of the fleet in `folder`, unless another is `given`. Raises `BadInput` where it has gone: engines
    that were started by it would be replaced by others."""
    from cascadia.controller.memory.state import remembered_engines

    found = given or remembered_engines(folder)
    if found is not None and found is not given and not found.exists():
        raise BadInput(str(found), "by which this fleet was started has gone", "name another with --engines")
    return found


def made_run_dir(run_dir: Path | None) -> Path:
    """The folder, made where it is missing."""
    folder = (run_dir or RUN_DIR).resolve()
    try:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be written to ({error.strerror})"
        raise BadInput(str(folder), what, "name another with --run-dir") from None
    return folder


ANOTHER_MOVES = (
    "a controller, or another move or scaling, is at work on this fleet",
    "end it, or wait for its end",
)
"""What is told to whoever would move replicas meanwhile, and what to do."""


def asked(run_dir: Path | None, what: str, **members: Any) -> dict[str, Any]:
    """The fleet's answer."""
    from cascadia.controller.local.control_socket import ask

    return asyncio.run(ask(run_dir or RUN_DIR, what, **members))
