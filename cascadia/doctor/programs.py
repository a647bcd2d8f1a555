"""Engines and container programs on the path, and their versions beside those that plans are written for."""

import os
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from cascadia.doctor.finding import Finding
from cascadia.doctor.machine import Ask, ask
from cascadia.domain.plan import Plan
from cascadia.files.extras import DISTRIBUTION, install

PACKAGES = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "xllamacpp", "trtllm": "tensorrt-llm"}
"""Python package of each engine."""
_OURS = ("${CASCADIA_ROUTER_IMAGE", "${CASCADIA_JUDGE_IMAGE")
_VARIABLE = re.compile(r"\$\{(\w+):([-?])(.*)\}").fullmatch
"""A variable in compose's words, with its default (`-`) or what to do without it (`?`)."""
PROGRAMS = {"vllm": "vllm", "sglang": "python3", "llama.cpp": "llama-server", "trtllm": "trtllm-serve"}


def programs(plan: Plan | None, run: Ask = ask) -> Iterator[Finding]:
    """Findings about what can serve; an engine that `plan` asks for and is not there is bad."""
    asked = (
        () if plan is None else tuple(dict.fromkeys(stage.engine for stage in plan.stages if stage.deployed))
    )
    for engine in PACKAGES:
        yield _engine(engine, needed=engine in asked, run=run)
    yield _containers(run)


def _engine(engine: str, *, needed: bool, run: Ask) -> Finding:
    found = _version(PACKAGES[engine])
    written_for = _pinned(PACKAGES[engine])
    if found is None and engine == "vllm":
        # An engine may live in an environment of its own.
        told = (run(["vllm", "--version"]) or "").split()
        found = told[-1] if told else None
    if found is None:
        do = (
            install(engine if engine in ("vllm", "sglang") else "cpu")
            if engine != "trtllm"
            else "install TensorRT-LLM"
        )
        return Finding(engine, "bad" if needed else "note", "not installed here", f"{do}, or use containers")
    if written_for is not None and found != written_for:
        said = f"{found}; flags and calibrations are those of {written_for}"
        return Finding(engine, "note", said, f"take {written_for}, or measure: `cascadia profile latency`")
    return Finding(engine, "good", found)


def _containers(run: Ask) -> Finding:
    for program in ("docker", "podman"):
        version = run([program, "--version"])
        if version is None:
            continue
        if run([program, "info"]) is None:
            do = f"start its daemon, or join its group: `sudo usermod -aG {program} $USER`"
            return Finding("containers", "note", f"{version.strip()}, but it cannot be reached", do)
        return Finding("containers", "good", version.strip())
    return Finding("containers", "note", "neither docker nor podman", "only `compose.yaml` needs one")


def images(plan: Plan, folder: Path, run: Ask = ask) -> Iterator[Finding]:
    """Finding whether the images of the plan's compose.yaml in `folder` are on this machine."""
    import yaml

    file = folder / "compose.yaml"
    if not plan.stages or not file.is_file():
        return
    services = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("services") or {}
    for told in sorted({service["image"] for service in services.values() if "image" in service}):
        variable = _VARIABLE(told)
        image = told
        if variable is not None:
            image = os.environ.get(variable[1]) or (variable[3] if variable[2] == "-" else "")
        if variable is not None and not image:
            yield Finding("image", "note", f"{variable[1]} is not set", variable[3])
            continue
        there = run(["docker", "image", "inspect", image]) is not None
        ours = told.startswith(_OURS)
        do = "" if there else "`docker/build.sh` builds it, in a clone" if ours else f"`docker pull {image}`"
        yield Finding("image", "good" if there else "note", f"{image} is {'' if there else 'not '}here", do)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _pinned(package: str) -> str | None:
    """The version that our extra names exactly."""
    try:
        asked = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    exact = (one.partition(";")[0].strip().partition("==") for one in asked)
    return next((version for name, sign, version in exact if name == package and sign), None)
