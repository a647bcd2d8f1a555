"""Questions sent as they would come: at Poisson times, whether or not earlier ones are answered."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from cascadia.demo.measuring.asking import Answer, ask, engine
from cascadia.demo.questions.question import Question
from cascadia.demo.questions.questions import training_questions

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ARRIVALS_SEED = 5


def arrivals_s(count: int, rate_rps: float, seed: int = ARRIVALS_SEED) -> list[float]:
    """The same for every pass, so that all meet the same rushes."""
    random, now_s, times = Random(seed), 0.0, []
    for _ in range(count):
        now_s += random.expovariate(rate_rps)
        times.append(now_s)
    return times


async def replay(
    url: str,
    model: str,
    questions: Sequence[Question],
    at_s: Sequence[float],
    tell: Callable[[], None] | None = None,
) -> list[Answer]:
    """The answers in the questions' order; `tell` is called at each. Raises what the first failure raises."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def one(client: "AsyncOpenAI", question: Question, when_s: float) -> Answer:
        await asyncio.sleep(began_s + when_s - loop.time())
        answer = await ask(client, model, question)
        if tell is not None:
            tell()
        return answer

    try:
        async with engine(url) as client, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one(client, question, when_s))
                for question, when_s in zip(questions, at_s, strict=True)
            ]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def warm_up(url: str, model: str, slots: int) -> None:
    """Each of the engine's slots gets the prompt's beginning into its cache: questions that no pass asks."""
    questions = training_questions(slots)
    await replay(url, model, questions, [0.0] * len(questions))
