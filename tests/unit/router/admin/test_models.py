"""What clients read of the models that are served, to choose one and to cut what they send."""

from dataclasses import replace

import openai
import pytest

from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import run, running, stages


@pytest.mark.parametrize(
    ("lengths", "cascade"),
    [((2048, 8192), 8192), ((8192, 2048), 8192), ((2048, None), None), ((None, None), None)],
)
def test_models_tell_how_long_a_prompt_they_read(
    lengths: tuple[int | None, int | None], cascade: int | None
) -> None:
    async def main() -> None:
        engines = FakeEngine(), FakeEngine()
        async with started(*engines):
            settings = [
                replace(stage, max_model_len=length)
                for stage, length in zip(stages(*engines), lengths, strict=True)
            ]
            async with running(tuple(settings)) as up:
                found = (await up.client.get("/v1/models")).json()["data"]
                one = (await up.client.get("/v1/models/cascadia")).json()
        told = {model["id"]: model.get("max_model_len") for model in found}
        assert told == {"cascadia": cascade, "small": lengths[0], "large": lengths[1]}
        assert one == found[0]
        assert ("max_model_len" in one) == (cascade is not None)

    run(main)


@pytest.mark.parametrize("name", ["org/model", "a b", "größe", "x:7b@q4", "100%", "a?b#c", "a//b"])
def test_a_model_of_any_name_is_found_and_asked_by_openais_client(name: str) -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with (
            started(engine),
            running(tuple(replace(stage, name=name) for stage in stages(engine))) as up,
        ):
            url = f"http://127.0.0.1:{up.port}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
                assert [model.id async for model in client.models.list()] == ["cascadia", name]
                answer = await client.chat.completions.with_raw_response.create(
                    model=name, messages=[{"role": "user", "content": "2+2?"}]
                )
                assert answer.parse().choices[0].message.content == "four"
                assert (await client.models.retrieve(name)).id == name

    run(main)
