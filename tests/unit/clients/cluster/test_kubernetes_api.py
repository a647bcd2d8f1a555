"""What stands in an API server's place, or is one that has just begun, is not taken for a cluster without anything."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from cascadia.clients.cluster.kubernetes_api import ApiFailed, KubernetesApi

JSON = "application/json"


def status(code: int, **more: Any) -> bytes:
    about = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "told"}
    return json.dumps(about | more).encode()


@contextmanager
def answering(code: int, body: bytes, kind: str | None, folder: Path) -> Iterator[str]:
    """A kubeconfig whose server gives everybody this answer."""

    class Answer(BaseHTTPRequestHandler):
        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(code)
            if kind is not None:
                self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "l", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "contexts": [{"name": "l", "context": {"cluster": "l", "user": "a"}}],
            "current-context": "l",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        try:
            yield str(path)
        finally:
            server.shutdown()
            serving.join(60)


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "resourceVersion": "1"},
}
CALLS: dict[str, Callable[[KubernetesApi], Awaitable[object]]] = {
    "get": lambda api: api.get("ConfigMap", "a"),
    "all": lambda api: api.all("Pod", {"a": None}),
    "nodes": lambda api: api.nodes(),
    "owner": lambda api: api.owner("Service", "a"),
    "apply": lambda api: api.apply(DEPLOYMENT),
    "merge": lambda api: api.merge("Deployment", "a", {}),
    "create": lambda api: api.create(DEPLOYMENT),
    "replace": lambda api: api.replace(DEPLOYMENT),
    "delete": lambda api: api.delete("Deployment", "a"),
    "find_apis": lambda api: api.find_apis(),
}
BAD: dict[str, tuple[int, bytes, str | None]] = {
    "an API server that begins": (404, status(404, reason="NotFound", details={}), JSON),
    "a balancer without a back end": (404, b"<h1>404</h1>", "text/html"),
    "a balancer's page": (502, b"<h1>502</h1>", "text/html"),
    "no word of what it is": (503, b"no", None),
    "half a refusal": (500, b'{"kind": "Sta', JSON),
    "half an answer": (200, b'{"kind": "Sta', JSON),
    "an answer of another": (200, b"[1, 2]", JSON),
    "an answer about nothing": (200, b"{}", JSON),
    "load": (429, status(429), JSON),
    "too old": (410, status(410, reason="Expired"), JSON),
}


def asked(config: str, call: Callable[[KubernetesApi], Awaitable[object]]) -> object:
    async def main() -> object:
        async with KubernetesApi("llm", config) as api:
            return await call(api)

    return asyncio.run(main())


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("bad", list(BAD))
def test_whatever_answers_in_its_place_is_told_as_a_failure_that_passes(tmp_path: Path, bad: str) -> None:
    with answering(*BAD[bad], tmp_path) as config:
        for name, call in CALLS.items():
            # Their answers are not looked at.
            if BAD[bad][0] == 200 and name in ("merge", "delete"):
                continue
            if bad == "an answer about nothing" and name in ("get", "apply", "create", "replace", "owner"):
                continue
            with pytest.raises(ApiFailed) as told:
                asked(config, call)
            assert told.value.passes or name == "find_apis"


def test_what_is_not_there_is_not_and_a_kind_of_others_may_be_unknown(tmp_path: Path) -> None:
    absent = status(404, reason="NotFound", details={"name": "a", "kind": "configmaps"})
    with answering(404, absent, JSON, tmp_path) as config:
        assert asked(config, CALLS["get"]) is None
        assert asked(config, CALLS["delete"]) is None
        with pytest.raises(ApiFailed, match="is the release installed there") as told:
            asked(config, CALLS["owner"])
        assert not told.value.passes
        with pytest.raises(ApiFailed) as told:
            asked(config, CALLS["merge"])
        assert not told.value.passes
    with answering(*BAD["an API server that begins"], tmp_path) as config:
        assert asked(config, lambda api: api.all("LeaderWorkerSet", {"a": None})) == []
