"""llama.cpp's OpenAI server as a process: `python -m cascadia.demo.llama_server MODEL NAME PORT SLOTS CONTEXT`.

One thread: two on a busy core are far slower than one. Ends at SIGTERM.
"""

import signal
import sys
import threading


def serve(model: str, name: str, port: int, slots: int, context: int) -> None:
    """`context` tokens for each of `slots` sequences; port 0 takes a free one, which the log names."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames, params.port, params.model_alias = ["127.0.0.1"], port, {name}
    params.n_parallel, params.n_ctx = slots, context * slots
    params.endpoint_metrics = params.endpoint_props = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # A slot keeps the prompt it served last, which is all that a shared beginning needs.
    params.cache_ram_mib = 0
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server = xllamacpp.Server(params)
    ended.wait()
    del server


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
