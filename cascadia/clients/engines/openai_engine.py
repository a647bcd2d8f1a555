"""A client of one model behind an OpenAI-compatible API, fit for measuring it."""

import json
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from cascadia.clients.engines.errors import cannot_reach, refusal
from cascadia.clients.engines.sse import Streamed, streamed
from cascadia.domain.errors import BadInput

TIMEOUT_S = 600.0
CONNECT_S = 10.0


class OpenAIEngine:
    """Use as `async with`. `base_url` may end in /v1 or not. Failures are raised as `BadInput`.

    `clock` counts seconds. Connections are not limited, so that requests never wait in the client.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.perf_counter,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.root = base_url.rstrip("/").removesuffix("/v1")
        self.model = model
        self.clock = clock
        self._http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            transport=transport,
            trust_env=False,  # a proxy on the way would be measured with the engine
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """The models that the engine says it serves; none where it does not say."""
        answer = await self._get(f"{self.root}/v1/models")
        if answer.status_code in (404, 405):
            return []
        found = self._document(answer).get("data")
        return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []

    async def text(self, path: str) -> str | None:
        """Text at `path` (outside /v1), such as /metrics; None where there is nothing."""
        answer = await self._get(self.root + path)
        return answer.text if answer.status_code == 200 else None

    async def stream(self, path: str, body: Mapping[str, Any]) -> Streamed:
        """Posts `body` to `path` (such as /completions), streamed, and times the answer."""
        url = f"{self.root}/v1{path}"
        wanted = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}, **body}
        parts: list[tuple[float, bytes]] = []
        try:
            sent_s, kind = await self._collect(url, wanted, parts)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            if parts:
                raise cannot_reach(url, error) from None
            # A kept connection that the engine has closed meanwhile: once more, on a fresh one.
            sent_s, kind = await self._collect_again(url, wanted, parts)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise cannot_reach(url, error) from None
        found = streamed(sent_s, parts)
        if isinstance(found, Streamed):
            return found
        if "event-stream" not in kind:
            raise BadInput(
                "--base-url",
                f"{url} does not stream: it answers with {kind or 'no content type'}",
                "turn streaming on; the time to the first token cannot be measured without it",
            )
        raise BadInput("--base-url", f"{url} sends {found}", "check the engine's log")

    async def _collect(
        self, url: str, body: Mapping[str, Any], parts: list[tuple[float, bytes]]
    ) -> tuple[float, str]:
        """Fills `parts`; returns when the request was sent, and the content type of the answer."""
        sent_s = self.clock()
        async with self._http.stream("POST", url, json=body) as answer:
            if answer.status_code >= 400:
                raise refusal(url, answer.status_code, await answer.aread(), self.model)
            async for part in answer.aiter_bytes():
                parts.append((self.clock(), part))  # noqa: PERF401 (a failure must find here what had come)
        return sent_s, answer.headers.get("content-type", "")

    async def _collect_again(
        self, url: str, body: Mapping[str, Any], parts: list[tuple[float, bytes]]
    ) -> tuple[float, str]:
        try:
            return await self._collect(url, body, parts)
        except httpx.HTTPError as error:
            raise cannot_reach(url, error) from None

    async def _get(self, url: str) -> httpx.Response:
        try:
            return await self._http.get(url, timeout=CONNECT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise cannot_reach(url, error) from None

    def _document(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code >= 400:
            raise refusal(str(answer.url), answer.status_code, answer.content, self.model)
        try:
            found = json.loads(answer.content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise BadInput(
                "--base-url", f"{answer.url} does not answer with a JSON object", "is it an engine?"
            )
        return found
