"""An API server as it is on a bad day: calls refused, done without an answer, slow; a proxy in front of a real one."""

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import yaml

from tests.e2e.k8s_cluster import Cluster, kubeconfig

REFUSALS = (404, 409, 410, 429, 500, 503, 504)
"""404: an API server that begins has not all of its kinds yet, or a balancer before it none."""
SLOW_S = 5.5
"""Longer than a client waits."""


class Flaky(ThreadingHTTPServer):
    """`share` (0-1) of calls go wrong, each in one way of `ways`: a status, `unanswered` (it is done all the same),
    `slow`, or with another's answer: `page` (a balancer's), `bare` or `torn`."""

    daemon_threads = True

    def __init__(self, on: Cluster, share: float, ways: tuple[int | str, ...], seed: int) -> None:
        self.on = on
        self.share = share
        self.ways = ways
        self.chance = random.Random(seed)
        self.went: Counter[int | str] = Counter()
        self.client = httpx.Client(verify=False, timeout=60, limits=httpx.Limits(max_connections=50))
        super().__init__(("127.0.0.1", 0), _Call)

    def way(self) -> int | str:
        found = self.chance.choice(self.ways) if self.chance.random() < self.share else "well"
        self.went[found] += 1
        return found


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Flaky

    def _any(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body, way = self.rfile.read(length), self.server.way()
        if isinstance(way, int):
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": way,
                "message": "bad day",
            }
            self._answer(way, json.dumps(status).encode(), "application/json")
            return
        if way in ("page", "bare", "torn"):
            body, kind = (
                (b"<h1>502</h1>", "text/html") if way == "page" else (b'{"kind": "Sta', "application/json")
            )
            self._answer(200 if way == "torn" else 502, body, None if way == "bare" else kind)
            return
        if way == "slow":
            time.sleep(SLOW_S)
        headers = {
            k: v
            for k, v in self.headers.items()
            if k.lower() not in ("host", "connection", "accept-encoding")
        }
        done = self.server.client.request(
            self.command, self.server.on.url + self.path, content=body, headers=headers
        )
        if way == "unanswered":
            self.close_connection = True
            self.connection.close()
            return
        with contextlib.suppress(OSError):
            self._answer(done.status_code, done.content, done.headers.get("content-type", ""))

    def _answer(self, status: int, body: bytes, kind: str | None) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

    def log_message(self, *_: object) -> None: ...


@contextlib.contextmanager
def on_a_bad_day(
    on: Cluster, folder: Path, share: float, ways: tuple[int | str, ...], seed: int = 1
) -> Iterator[tuple[Cluster, Flaky]]:
    """The same cluster, as who comes by this way finds it."""
    server = Flaky(on, share, ways, seed)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    url = f"http://127.0.0.1:{server.server_port}"
    path = folder / "flaky.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(url, on.token)))
    try:
        yield Cluster(url, on.token, path), server
    finally:
        server.shutdown()
        serving.join(60)
        server.server_close()
        server.client.close()
