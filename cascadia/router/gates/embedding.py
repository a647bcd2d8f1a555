"""An embedding judge behind `cascadia judge serve`: asked for the score of an answer, or of one not yet
written."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.gates.certainty import certainty_of, logprobs_wanted
from cascadia.router.gates.context import ASKED
from cascadia.router.gates.probe import HEARD_CHARACTERS
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.bounded import NOT_JSON
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.questions import answer
from cascadia.router.openai.requests import Api
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.trace_context import FORWARDED
from cascadia.router.upstream.errors import UpstreamError
from cascadia_judge.injection.normalise import is_blank

PATH = b"/v1/score"
BYTES_PER_TOKEN = 4
CHARACTERS_MAX = 65_536
"""Of each text; the judge reads the ends of what is long, so the ends are sent."""


class _Verdict(Struct):
    score: float
    judge: str = ""


_verdict = msgspec.json.Decoder(_Verdict)


class EmbeddingGate:
    """`stage` has the services. `certainty`: whether engines are asked for log-probabilities."""

    def __init__(self, stage: Stage, examiner: Examiner, certainty: bool = True) -> None:
        self.stage = stage
        self.examiner = examiner
        self.certainty = certainty
        self.heard: str | None = None
        """The judge that gave the last score; None: there was none yet."""

    def wants(self, api: Api) -> Mapping[str, Any]:
        return logprobs_wanted(api) if self.certainty else {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        body: dict[str, Any] = {"answer": _ends(answer(choice))}
        if self.certainty and choice.logprobs:
            body["certainty"] = (await certainty_of(choice, self.examiner)).document()
        return await self._asked(question, body, deadline_s)

    async def expected(self, question: str, deadline_s: float) -> float:
        """The quality to be expected of an answer by the stage in `ASKED`. Raises `JudgeFailed`."""
        return await self._asked(question, {}, deadline_s)

    async def _asked(self, question: str, body: dict[str, Any], deadline_s: float) -> float:
        asked = ASKED.get()
        told = asked.said if asked.said is not None else question
        if is_blank(told):
            raise JudgeFailed("no-question")
        body |= {"question": _ends(told), "stage": asked.stage}
        content = orjson.dumps(body)
        tokens = len(content) // BYTES_PER_TOKEN
        call = Call(PATH, content, FORWARDED.get(), tokens, None, deadline_s, most_output=0)
        try:
            reply = await self.stage.buffered(call, _read)
        except StageFailed as error:
            raise JudgeFailed(error.kind) from None
        if reply.found is None:
            raise JudgeFailed(f"status-{reply.status}")
        self.heard = reply.found.judge[:HEARD_CHARACTERS]
        return reply.found.score


async def _read(content_type: bytes, body: bytes) -> _Verdict:
    if not content_type.startswith(b"application/json"):
        raise UpstreamError("unreadable", "not JSON by its content type")
    try:
        found = _verdict.decode(body)
    except NOT_JSON:
        raise UpstreamError("unreadable", "no verdict in JSON") from None
    if not 0.0 <= found.score <= 100.0:
        raise UpstreamError("unreadable", "a score that is none")
    return found


def _ends(text: str) -> str:
    """Half a surrogate pair is no reason to do without a verdict."""
    if len(text) > CHARACTERS_MAX:
        text = f"{text[: CHARACTERS_MAX // 2]}\n{text[-CHARACTERS_MAX // 2 :]}"
    return text.encode("utf-8", "replace").decode()
