"""Asks an engine for answers of an exact length, in the way that it understands."""

from typing import Any

from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.clients.engines.sse import Streamed
from cascadia.domain.errors import BadInput
from cascadia.profile.latency.points import FEW, Point
from cascadia.profile.latency.synthetic_prompts import MadeUp


class Asker:
    """Asks for answers of an exact length, in the way that the engine understands."""

    def __init__(self, client: OpenAIEngine, prompts: MadeUp) -> None:
        self.client = client
        self.prompts = prompts
        self.warm_up: list[tuple[Point, Streamed]] = []
        """What was asked to settle, and how it was answered; the first answer may have warmed the engine up."""
        self._path = "/completions"
        self._exact: dict[str, Any] = {"ignore_eos": True}

    async def settle(self) -> None:
        """Finds out what the engine understands, warms it up, and learns how it counts tokens."""
        for path, exact in (
            ("/completions", {"ignore_eos": True}),
            ("/completions", {}),
            ("/chat/completions", {"ignore_eos": True}),
            ("/chat/completions", {}),
        ):
            self._path, self._exact = path, exact
            try:
                few = await self._words(8)
                break
            except BadInput as error:
                if (path, exact) == ("/chat/completions", {}) or error.where != "--base-url":
                    raise
                # Only a refusal says that another way may do; an engine that fails or is not there fails for
                # all.
                if " answers 4" not in error.what:
                    raise
        many = await self._words(72)
        self.prompts = self.prompts.counted((8, few), (72, many))

    async def ask(self, prompt_tokens: int, output_tokens: int) -> Streamed:
        return await self._send(self.prompts.prompt(prompt_tokens), output_tokens)

    async def _words(self, words: int) -> int:
        found = await self._send(MadeUp(self.prompts.draw).prompt(words), FEW)
        tokens = found.prompt_tokens or 1
        self.warm_up.append((Point(1, tokens, found.output_tokens or 1), found))
        return tokens

    async def _send(self, prompt: str, output_tokens: int) -> Streamed:
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
        if self._path == "/completions":
            asked = {"prompt": prompt}
        body = {**asked, "max_tokens": output_tokens, "temperature": 0, **self._exact}
        found = await self.client.stream(self._path, body)
        if found.prompt_tokens is None or found.output_tokens is None:
            raise BadInput(
                "--base-url",
                f"{self.client.root} does not report token counts of streamed answers",
                "let it honour stream_options.include_usage",
            )
        return found
