"""An engine that fell behind is told as such."""

import asyncio

import pytest

from cascadia.demo.measuring.asking import ask, engine
from cascadia.demo.questions.questions import demo_questions
from cascadia.domain.errors import CascadiaError
from cascadia.testing.engines import FakeEngine, send, started


@pytest.mark.parametrize(("status", "hints"), [(503, True), (504, True), (400, False)])
def test_a_machine_too_busy_for_its_questions_is_named_with_what_to_do(status: int, hints: bool) -> None:
    async def refuse(_: FakeEngine, _body: object, writer: asyncio.StreamWriter) -> None:
        send(writer, status, b'{"error": {"message": "no"}}')

    async def main() -> str:
        async with started(fake := FakeEngine("large", answer=refuse)), engine(fake.url) as client:
            with pytest.raises(CascadiaError) as told:
                await ask(client, "large", demo_questions()[0])
            return str(told.value)

    said = asyncio.run(main())
    assert f"says {status}" in said
    assert ("end other programs, or add --calibrate" in said) is hints
