"""An OpenAI-compatible engine on a real socket, whose answers a test makes up."""

import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
HANGS_UP = 0
"""Instead of a status: the connection is closed without a word."""


@dataclass(frozen=True)
class Says:
    """What an engine sends back. `top`: probabilities of what the first token might have been."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    top: Mapping[str, float] | None = None
    raw: bytes | None = None

    def content(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": self.text}}).encode()
        choice: dict[str, Any] = {"message": {"content": self.text}, "finish_reason": self.finish}
        if self.top is not None:
            top = [{"token": token, "logprob": math.log(p)} for token, p in self.top.items()]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        return json.dumps(
            {"choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}
        ).encode()


def question(body: Body) -> str:
    """What the last message asks."""
    return str(body["messages"][-1]["content"])


@dataclass
class Engine:
    """`reply` makes an answer of a request; `asked` is every request so far, `at_once` the most under way."""

    reply: Callable[[Body], Says]
    models: tuple[str, ...] = ("m",)
    port: int = 0
    asked: list[Body] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    under_way: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, body: Body) -> Says:
        with self.lock:
            self.asked.append(body)
            self.under_way += 1
            self.at_once = max(self.at_once, self.under_way)
        try:
            return self.reply(body)
        finally:
            with self.lock:
                self.under_way -= 1


@contextmanager
def serving(reply: Callable[[Body], Says], models: tuple[str, ...] = ("m",)) -> Iterator[Engine]:
    engine = Engine(reply, models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            engine.keys.append(self.headers["authorization"])
            listed = {"data": [{"id": name} for name in engine.models]}
            self._send(Says(raw=json.dumps(listed).encode()) if engine.models else Says(status=404))

        def do_POST(self) -> None:
            engine.keys.append(self.headers["authorization"])
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(engine.answer(body))

        def _send(self, says: Says) -> None:
            if says.status == HANGS_UP:
                self.close_connection = True
                return
            content = says.content()
            try:
                self.send_response(says.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                for name, value in says.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # whoever asked is gone

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), OSError):  # a client that was killed
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    engine.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join(timeout=60)
        server.server_close()
