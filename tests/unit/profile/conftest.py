import pytest


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the OpenAI SDK would have waited before each further attempt; here it does not."""
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    return seen
