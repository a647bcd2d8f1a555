"""The embedding judge as one more model of an engine of one-pass models: one port, one thread that computes."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from cascadia.judge_service.app import Beside
from cascadia.judge_service.app import application as judge_application
from cascadia.onepass.app import application as engine_application
from cascadia.onepass.runner import Runner
from cascadia_judge.embedding import EmbeddingJudge

JUDGES = ("/v1/score", "/v1/scores")


class EngineWithJudge:
    """`JUDGES` are the judge's, all other paths the engine's; /metrics tells of both. Passes and verdicts wait for the
    same thread, so that none slows another's pass."""

    def __init__(
        self,
        runners: Sequence[Runner],
        judge: EmbeddingJudge,
        *,
        most_waiting: int = 4096,
        at_once: int = 32,
        api_key: str | None = None,
    ) -> None:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pass")
        limits: dict[str, Any] = {"most_waiting": most_waiting, "at_once": at_once, "api_key": api_key}
        self.engine = engine_application(runners, **limits, thread=thread)
        beside = Beside(thread, self.engine.state.engine.registry)
        self.judging = judge_application(judge, **limits, beside=beside)
        of_the_engine, of_the_judge = (app.router.lifespan_context for app in (self.engine, self.judging))

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            async with of_the_engine(app), of_the_judge(self.judging):
                yield
            thread.shutdown(wait=True)

        self.engine.router.lifespan_context = lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        judged = scope["type"] == "http" and scope["path"] in JUDGES
        await (self.judging if judged else self.engine)(scope, receive, send)
