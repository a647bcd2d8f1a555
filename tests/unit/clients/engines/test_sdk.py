"""The SDK as we use it tells an engine nothing of its environment, and asks as often as it is told to."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from openai import APIStatusError

from cascadia.clients.engines.sdk import sdk
from cascadia.domain.errors import BadInput


class Engine(httpx.AsyncBaseTransport):
    """Answers every request with `status`."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[Mapping[str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers)
        return httpx.Response(self.status, json={"data": [{"id": "m"}]})


def models(engine: Engine, api_key: str | None = None, tries: int = 1) -> list[str]:
    async def main() -> list[str]:
        async with sdk(
            "http://h/v1", api_key, timeout_s=5.0, tries=tries, connections=1, transport=engine
        ) as client:
            return [model.id for model in (await client.models.list()).data]

    return asyncio.run(main())


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("key", [None, "k"])
def test_an_engine_is_told_its_own_key_and_nothing_of_the_users_account(key: str | None) -> None:
    engine = Engine()
    assert models(engine, key) == ["m"]
    (headers,) = engine.asked
    assert headers.get("authorization") == (f"Bearer {key}" if key else None)
    assert "mine" not in str(dict(headers))


@pytest.mark.parametrize("tries", [1, 3])
def test_attempts_are_counted_with_the_first(tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        assert 0 < seconds <= 8

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    engine = Engine(503)
    with pytest.raises(APIStatusError):
        models(engine, tries=tries)
    assert len(engine.asked) == tries


@pytest.mark.parametrize("address", ["http://[::1/v1", "http://h:port/v1"])
def test_what_is_no_address_is_told_in_a_line(address: str) -> None:
    with pytest.raises(BadInput, match="is no address; write e"):
        sdk(address, None, timeout_s=5.0, tries=1, connections=1)


def test_beside_a_socks_proxy_the_one_that_the_router_asks_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:secret@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    for address in ("https://api.example/v1", "http://127.0.0.1:1/v1"):
        sdk(address, None, timeout_s=5.0, tries=1, connections=1)
