"""A client of one model behind an OpenAI-compatible API, fit for measuring it."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, cast

import httpx
from openai import APIConnectionError, APIStatusError

from cascadia.clients.engines.errors import cannot_reach, cause, refusal
from cascadia.clients.engines.sdk import CONNECT_S, sdk
from cascadia.clients.engines.sse import Streamed, streamed
from cascadia.domain.errors import BadInput

TIMEOUT_S = 600.0

_sent_s: ContextVar[float] = ContextVar("sent_s")
"""When the request of the task at hand left, by the client's clock: what the SDK does before is not the engine's."""


_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class OpenAIEngine:
    """Use as `async with`. `base_url` may end in /v1 or not. Failures are raised as `BadInput`.

    `clock` counts seconds. Connections are not limited, so that requests never wait in the client, and nothing is asked
    again unseen: an attempt more would stand in the measurement.
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
        self._sdk = sdk(
            f"{self.root}/v1",
            api_key,
            timeout_s=timeout_s,
            tries=1,
            connections=None,
            proxied=False,  # a proxy on the way would be measured with the engine
            transport=transport,
            on_request=self._sends,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sdk.close()

    async def _sends(self, _: httpx.Request) -> None:
        _sent_s.set(self.clock())

    async def models(self) -> list[dict[str, Any]]:
        """The models that the engine says it serves; none where it does not say."""
        url = f"{self.root}/v1/models"
        try:
            answer = await self._sdk.models.with_raw_response.list(timeout=CONNECT_S)
        except APIStatusError as error:
            if error.status_code in (404, 405):
                return []
            raise refusal(url, error.status_code, error.response.content, self.model) from None
        except APIConnectionError as error:
            raise cannot_reach(url, error) from None
        found = _document(url, answer.content).get("data")
        return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []

    async def text(self, path: str) -> str | None:
        """Text at `path` (outside /v1), such as /metrics; None where there is nothing."""
        try:
            once = self._sdk.with_options(timeout=CONNECT_S)
            answer: httpx.Response = await once.get(self.root + path, cast_to=cast(Any, httpx.Response))
        except APIStatusError:
            return None
        except APIConnectionError as error:
            raise cannot_reach(self.root + path, error) from None
        return answer.text if answer.status_code == 200 else None

    async def stream(self, path: str, body: Mapping[str, Any]) -> Streamed:
        """Posts `body` to `path` (such as /completions), streamed, and times the answer."""
        url = f"{self.root}/v1{path}"
        parts: list[tuple[float, bytes]] = []
        try:
            try:
                sent_s, kind = await self._collect(path, body, parts)
            except (APIConnectionError, httpx.HTTPError) as error:
                if parts or not isinstance(cause(error), _CLOSED):
                    raise
                # A kept connection that the engine has closed meanwhile: once more, on a fresh one.
                sent_s, kind = await self._collect(path, body, parts)
        except APIStatusError as error:
            raise refusal(url, error.status_code, error.response.content, self.model) from None
        except (APIConnectionError, httpx.HTTPError) as error:
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
        self, path: str, body: Mapping[str, Any], parts: list[tuple[float, bytes]]
    ) -> tuple[float, str]:
        """Fills `parts`; returns when the request was sent, and the content type of the answer.

        The bytes are read whole and not as the SDK's events, each of which it would check by its schema: while it reads
        those of one stream, the others' wait for their clock.
        """
        asked = {name: value for name, value in body.items() if name not in ("messages", "prompt")}
        more = {"stream_options": {"include_usage": True}, **asked}
        opened: AbstractAsyncContextManager[Any]
        if path == "/completions":
            ask = self._sdk.completions.with_streaming_response.create
            opened = ask(model=self.model, prompt=body["prompt"], stream=True, extra_body=more)
        else:
            chat = self._sdk.chat.completions.with_streaming_response.create
            opened = chat(model=self.model, messages=body["messages"], stream=True, extra_body=more)
        async with opened as answer:
            async for part in answer.iter_bytes():
                parts.append((self.clock(), part))  # noqa: PERF401 (a failure must find here what had come)
        return _sent_s.get(), answer.headers.get("content-type", "")


def _document(url: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadInput("--base-url", f"{url} does not answer with a JSON object", "is it an engine?")
    return found
