"""llama.cpp's OpenAI server, from the wheel that has it, for machines without the program `llama-server`.

Understands the flags that `cascadia.render.engine_args` writes for llama.cpp, and no others. Ends at SIGTERM. Any
interpreter that has `xllamacpp` can run this file.
"""

import signal
import sys
import threading
from pathlib import Path

FLAGS = (
    *("--model", "--alias", "--host", "--port", "--parallel", "--ctx-size", "--batch-size"),
    *("--threads", "--cache-ram", "--n-gpu-layers", "--chat-template-file", "--slot-save-path"),
    "--api-key-file",
)
"""Those with a value."""


def values(arguments: list[str]) -> dict[str, str]:
    """Values by flag. Ends the program where one is not known or has no value."""
    found, rest = {}, iter(arguments)
    for flag in rest:
        if flag == "--metrics":
            continue  # always on
        value = next(rest, None)
        if flag not in FLAGS or value is None:
            sys.exit(
                f"llama_server: {flag} is not known here or has no value; install llama.cpp's llama-server"
            )
        found[flag] = value
    return found


def serve(flags: dict[str, str]) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = flags["--model"]
    params.hostnames, params.port = [flags["--host"]], int(flags["--port"])
    params.model_alias = {flags["--alias"]}
    params.n_parallel, params.n_ctx = int(flags["--parallel"]), int(flags["--ctx-size"])
    params.n_batch = int(flags["--batch-size"])
    params.n_gpu_layers = int(flags.get("--n-gpu-layers", 0))
    params.endpoint_metrics = params.endpoint_props = True
    # More than one thread on a busy core is far slower than one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(flags.get("--threads", 1))
    params.cache_ram_mib = int(flags.get("--cache-ram", 0))
    if "--chat-template-file" in flags:
        params.chat_template = Path(flags["--chat-template-file"]).read_text(encoding="utf-8")
    if "--api-key-file" in flags:
        params.api_keys = Path(flags["--api-key-file"]).read_text(encoding="utf-8").split()
    if "--slot-save-path" in flags:
        # The server joins folder and name as they are.
        params.slot_save_path = f"{flags['--slot-save-path'].rstrip('/')}/"
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server = xllamacpp.Server(params)
    ended.wait()
    del server


if __name__ == "__main__":
    serve(values(sys.argv[1:]))
