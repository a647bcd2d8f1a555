"""Every prompt through every stage and past the judge, a few at a time, until each is done or has failed.

Stages run side by side, each with so many requests under way; one that only fails is left alone after a
while, and the others go on. What is finished is handed over at once, so that whoever keeps it can go on later.
"""

import asyncio
import hashlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from cascadia.clients.engines.chat import TIMEOUT_S, Chat, Endpoint, Refused, Reply, Unanswered
from cascadia.profile.quality.journal import Done, Failed
from cascadia.profile.quality.judge import Judge
from cascadia.profile.quality.prompts import Prompt, digest
from cascadia_judge.llm.llm import READS_TOKENS
from cascadia_judge.llm.prompt import INSTRUCTIONS

GIVE_UP_AFTER = 10
"""So many failures of a stage in a row, none of them for the prompt's own sake, and it is asked no more."""

_FOR_ITS_OWN_SAKE = (400, 413, 422)
"""Statuses by which an engine refuses one prompt, too long a one for instance, and not the next."""


@dataclass(frozen=True, slots=True)
class Job:
    """`judge` is None where checks alone decide. `concurrency`: requests under way at each engine; `timeout_s`: for an
    attempt at one."""

    prompts: tuple[Prompt, ...]
    stages: tuple[Endpoint, ...]
    judge: Endpoint | None
    max_tokens: int = 1024
    temperature: float = 0.0
    reads_tokens: int = READS_TOKENS
    concurrency: int = 8
    timeout_s: float = TIMEOUT_S

    @property
    def answers(self) -> int:
        return len(self.prompts) * len(self.stages)

    def done(self, pairs: Container[tuple[str, str]]) -> list[tuple[str, str]]:
        """Part of the job that is in `pairs`, as (prompt_id, stage)."""
        every = ((prompt.id, stage.name) for stage in self.stages for prompt in self.prompts)
        return [pair for pair in every if pair in pairs]

    def inputs(self) -> dict[str, Any]:
        """All that answers and scores depend on, by the name that a user knows it by.

        Addresses are left out: an engine that was started anew elsewhere serves the same model.
        """
        checks = sorted({prompt.check for prompt in self.prompts if prompt.check})
        judge: dict[str, Any] = {"checks": checks, "model": self.judge.model if self.judge else None}
        if self.judge:
            told = hashlib.sha256(INSTRUCTIONS.encode()).hexdigest()
            judge |= {"reads_tokens": self.reads_tokens, "instructions": told}
        return {
            "prompts": digest(self.prompts),
            "stages": [[stage.name, stage.model] for stage in self.stages],
            "judge": judge,
            "--max-tokens": self.max_tokens,
            "--temperature": self.temperature,
        }

    def body(self, prompt: Prompt) -> dict[str, Any]:
        return {
            "messages": list(prompt.messages),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }


@dataclass(frozen=True, slots=True)
class Finished:
    """`answer` is the stage's text, where it is done; else `why` says what failed, perhaps quoting an engine.

    `systemic`: it failed for a reason that the next prompt would meet too.
    """

    outcome: Done | Failed
    answer: str = ""
    why: str = ""
    systemic: bool = False


OnFinished = Callable[[Finished], None]


async def run(job: Job, done: Container[tuple[str, str]], on_finished: OnFinished) -> None:
    """Asks for all (prompt, stage) that are not in `done`; `on_finished` is told of each as it ends."""
    todo = {
        stage.name: [prompt for prompt in job.prompts if (prompt.id, stage.name) not in done]
        for stage in job.stages
    }

    slots = asyncio.Semaphore(job.concurrency)

    async def ask_judge(chat: Chat, body: Mapping[str, Any]) -> Reply:
        # All stages share the judge; what waits here is not yet on its clock.
        async with slots:
            return await chat.ask(body)

    async with AsyncExitStack() as stack:
        judge_chat = None
        if job.judge is not None:
            judge_chat = await stack.enter_async_context(Chat(job.judge, job.concurrency, job.timeout_s))
        judge = Judge(judge_chat, ask_judge, job.reads_tokens)
        lanes = []
        for stage in job.stages:
            chat = await stack.enter_async_context(Chat(stage, job.concurrency, job.timeout_s))
            lanes.append(_Lane(job, chat, judge, on_finished, iter(todo[stage.name])))
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes:
                    for _ in range(min(job.concurrency, len(todo[lane.chat.endpoint.name]))):
                        group.create_task(lane.work())
        except BaseExceptionGroup as several:
            # What `on_finished` raises, a full disk for instance, is told as itself.
            raise several.exceptions[0] from None


@dataclass(slots=True)
class _Lane:
    """One stage's prompts, taken one by one by as many workers as may ask at once."""

    job: Job
    chat: Chat
    judge: Judge
    on_finished: OnFinished
    todo: Iterator[Prompt]
    failed_in_a_row: int = 0

    async def work(self) -> None:
        for prompt in self.todo:
            if self.failed_in_a_row >= GIVE_UP_AFTER:
                return
            finished = await self.answer(prompt)
            self.failed_in_a_row = self.failed_in_a_row + 1 if finished.systemic else 0
            self.on_finished(finished)

    async def answer(self, prompt: Prompt) -> Finished:
        stage = self.chat.endpoint.name
        body = self.job.body(prompt)
        try:
            reply = await self.chat.ask(body)
        except Unanswered as error:
            return _failed(prompt, stage, stage, error)
        try:
            judged = await self.judge.judge(prompt, reply.text)
        except Unanswered as error:
            return _failed(prompt, stage, "judge", error)
        # An empty answer still takes a token, its end, to write; a table has none below 1.
        outcome = Done(
            prompt.id,
            stage,
            judged.score,
            quality=judged.quality,
            input_tokens=max(1, reply.input_tokens),
            output_tokens=max(1, reply.output_tokens),
            cut=reply.cut,
            expected=judged.expected,
        )
        return Finished(outcome, reply.text)


def _failed(prompt: Prompt, stage: str, by: str, error: Unanswered) -> Finished:
    systemic = not (isinstance(error, Refused) and error.status in _FOR_ITS_OWN_SAKE)
    return Finished(Failed(prompt.id, stage, by, error.kind), why=f"{by}: {error}", systemic=systemic)
