"""An engine for tests, as small as can be.

`little_engine.py PORT [--die-first FILE N] [--deaf] [--children] [--score N]`

Answers /health, /metrics with its port as a count, and any POST with a chat completion whose text is its port;
with --score it is an embedding judge that scores all answers alike. With --deaf it ignores SIGTERM. With
--children it starts two processes that ignore SIGTERM, one of them away from its own group and parent, and
writes their ids beside its own to standard output.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    score: float | None = None

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.path == "/metrics":
            self._answer(f"llamacpp:prompt_tokens_total {port}\n".encode())
        else:
            self._answer(b'{"status": "ok"}')

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.score is not None:
            self._answer(json.dumps({"score": self.score}).encode())
            return
        gate = asked.get("gate")
        if gate is not None:
            Path(f"{gate}.arrived").touch()
            while not Path(f"{gate}.go").exists():
                time.sleep(0.01)
        message = {"role": "assistant", "content": str(self.server.server_address[1])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        document = {"id": "x", "object": "chat.completion", "created": 0, "model": asked.get("model")}
        self._answer(json.dumps({**document, "choices": [choice], "usage": usage}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _children() -> None:
    pids = []
    for away in (False, True):
        pid = os.fork()
        if pid == 0:
            if away:
                os.setsid()
                if os.fork():
                    os._exit(0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # whole lines at once: others write to the same file
            print(json.dumps({"child": os.getpid()}) + "\n", end="", flush=True)
            while True:
                signal.pause()
        pids.append(pid)


def main(arguments: list[str]) -> None:
    port = int(arguments[0])
    if "--die-first" in arguments:
        at = arguments.index("--die-first")
        count = Path(arguments[at + 1])
        lives = int(count.read_text() or 0) if count.exists() else 0
        count.write_text(str(lives + 1))
        if lives < int(arguments[at + 2]):
            sys.exit(3)
    if "--score" in arguments:
        Handler.score = float(arguments[arguments.index("--score") + 1])
    if "--children" in arguments:
        _children()
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = False
    if "--deaf" in arguments:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    env = {key: os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES",)}
    cores = sorted(os.sched_getaffinity(0))
    print(json.dumps({"pid": os.getpid(), "env": env, "cores": cores}) + "\n", end="", flush=True)
    server.serve_forever(poll_interval=0.02)


if __name__ == "__main__":
    main(sys.argv[1:])
