"""llama.cpp's OpenAI server. Run by the interpreter that has xllamacpp: MODEL PORT SLOTS CONTEXT_PER_SLOT."""

import signal
import sys
import threading


def serve(model: str, port: int, slots: int, context: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames, params.port, params.model_alias = ["127.0.0.1"], port, {"smol"}
    params.n_parallel, params.n_ctx = slots, context * slots
    params.endpoint_metrics = params.endpoint_props = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    del server


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:5]))
