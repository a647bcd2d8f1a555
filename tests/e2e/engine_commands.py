"""How real engines are started on a core of this machine: arguments and variables, with the model under a name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cascadia.clients.processes import llama_server
from tests.e2e.engine_packages import gguf_model, llama_python, sglang_python, vllm_python

KV_BYTES = 134_217_728
SLOTS = 4


@dataclass(frozen=True, slots=True)
class Command:
    argv: list[str]
    env: Mapping[str, str]


def llama_command(port: int | str, slots: int, context: int) -> list[str]:
    """llama.cpp's server on SmolLM2, called `smol`, with `context` tokens for each of `slots`."""
    flags = {
        "--model": gguf_model(),
        "--alias": "smol",
        "--host": "127.0.0.1",
        "--port": port,
        "--parallel": slots,
        "--ctx-size": slots * context,
        "--batch-size": 2048,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    return [str(llama_python()), llama_server.__file__, *words]


def vllm_command(name: str, model: Path, port: int | str, core: int | str, context: int) -> Command:
    """vLLM's CPU build on a checkpoint."""
    program = vllm_python().with_name("vllm")
    flags = {
        "--host": "127.0.0.1",
        "--port": port,
        "--served-model-name": name,
        "--max-model-len": context,
        "--max-num-seqs": SLOTS,
        "--block-size": 32,
        "--kv-cache-memory-bytes": KV_BYTES,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    settings = {
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core),
    }
    return Command([str(program), "serve", str(model), *words, "--enforce-eager"], settings)


def sglang_command(name: str, model: Path, port: int | str, core: int | str, context: int) -> Command:
    """SGLang on a CPU with stubs: see `sglang_python`."""
    flags = {
        "--model-path": model,
        "--served-model-name": name,
        "--host": "127.0.0.1",
        "--port": port,
        "--device": "cpu",
        "--attention-backend": "torch_native",
        "--mem-fraction-static": 0.1,
        "--max-total-tokens": 2 * SLOTS * context,
        "--max-running-requests": SLOTS,
        "--context-length": context,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    switches = ["--disable-overlap-schedule", "--skip-server-warmup", "--enable-metrics"]
    settings = {
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": str(core),
        "HF_HUB_OFFLINE": "1",
        # Its programs are looked for beside the interpreter.
        "PATH": f"{sglang_python().parent}{os.pathsep}{os.environ['PATH']}",
    }
    return Command([str(sglang_python()), "-m", "sglang.launch_server", *words, *switches], settings)


COMMANDS: Mapping[str, Callable[[str, Path, int | str, int | str, int], Command]] = {
    "vllm": vllm_command,
    "sglang": sglang_command,
}
"""Those that serve a checkpoint."""
