"""Looks at the engines' own metrics each window, remembers what they teach, and says once what has drifted."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx

from cascadia.clients.engines.totals import Totals, totals
from cascadia.controller.local.backend import observed_of
from cascadia.controller.local.control_socket import ask, told_by
from cascadia.controller.move.state import Kind
from cascadia.controller.speed.drift import Drift, Served, by_stage, drifts
from cascadia.controller.speed.expected import Expected, expected, key_of, learned_of
from cascadia.controller.speed.speed import Seen, Speed, factor, together
from cascadia.domain.errors import CascadiaError
from cascadia.files.plan_file import read_plan

TIMEOUT_S = 5.0
PROMPT, CONTEXT = 512.0, 640.0
"""Tokens, of engines that do not count requests, where no traffic is known either."""
GONE = 3
"""Looks in a row that a drift must not be there for it to be over, or that a replica must be silent to be forgotten."""


class Engines(Protocol):
    async def metrics(self) -> Mapping[str, tuple[Kind, str]]:
        """Metrics by replica that serves: its kind, and the text of /metrics; without those that do not answer."""
        ...


class Lengths(NamedTuple):
    """Mean tokens of a prompt, and of what a sequence attends to."""

    prompt: float = PROMPT
    context: float = CONTEXT


class SpeedWatch:
    """`folder`: where models that are paths start. `clock` counts seconds that pass, whoever sets the clock."""

    def __init__(self, engines: Engines, folder: Path, clock: Callable[[], float]) -> None:
        self._engines = engines
        self._folder = folder
        self._clock = clock
        self._plan: Path | None = None
        self._expected: Mapping[tuple[str, str, int], Expected] = {}
        self._learned: dict[str, dict[str, float]] = {}
        self._last: dict[str, tuple[float, Totals]] = {}
        self._speeds: dict[str, Speed] = {}
        self._kinds: dict[str, Kind] = {}
        self._told: dict[str, int] = {}
        self._silent: dict[str, int] = {}

    async def look(self, plan: Path, lengths: Lengths) -> list[Drift]:
        """News: who has drifted, and who does so no longer."""
        if plan != self._plan:
            self._adopt(plan)
        told = await self._engines.metrics()
        for name, (kind, text) in told.items():
            self._learn(name, kind, totals(text), lengths)
        self._forget(told)
        return self._news(drifts(self.served()))

    def learned(self) -> dict[str, dict[str, float]]:
        """Factors by stage and GPU, over the calibration: for the next plan."""
        found = {stage: dict(by_gpu) for stage, by_gpu in self._learned.items()}
        for (stage, gpu), speeds in by_stage(self.served()).items():
            before = self._learned.get(stage, {}).get(gpu, 1.0)
            found.setdefault(stage, {})[gpu] = round(before * together(speeds).factor, 4)
        return found

    def told(self) -> str:
        """The same in words, with what it rests on."""
        parts = []
        for (stage, gpu), speeds in by_stage(self.served()).items():
            whole = together(speeds)
            low, high = whole.range
            parts.append(f"{stage} on {gpu} {whole.factor:.2f} ({low:.2f} to {high:.2f})")
        return ", ".join(parts)

    @property
    def drifting(self) -> frozenset[str]:
        """Replicas, and stages with their GPU, that were said to drift and do so still."""
        return frozenset(self._told)

    def _adopt(self, plan: Path) -> None:
        """Another plan: what was learnt under the one before is kept as a factor over the calibrations."""
        learned = self.learned()
        try:
            found = read_plan(plan)
            self._expected = expected(found, self._folder)
        except CascadiaError:
            self._expected = {}
        else:
            self._learned = {**learned, **learned_of(found)}
        self._plan, self._speeds, self._told = plan, {}, {}

    def _learn(self, name: str, kind: Kind, now: Totals | None, lengths: Lengths) -> None:
        if now is None:
            return
        at_s, before = self._clock(), self._last.get(name)
        self._last[name], self._kinds[name] = (at_s, now), kind
        known = self._expected.get(key_of(kind))
        came = None if before is None else now.since(before[1])
        if before is None or came is None or known is None:
            return
        found = factor(_seen(came, at_s - before[0], lengths), known.timing)
        if found is not None:
            self._speeds[name] = self._speeds.get(name, Speed()).learnt(found, came.tokens)

    def _forget(self, told: Mapping[str, object]) -> None:
        """Forgets replicas that have left: another may get the name."""
        self._silent = {name: self._silent.get(name, 0) + 1 for name in self._last if name not in told}
        for name in [name for name, looks in self._silent.items() if looks >= GONE]:
            for known in (self._last, self._kinds, self._speeds, self._silent):
                known.pop(name, None)

    def served(self) -> dict[str, Served]:
        """Speeds by replica that were learnt under the plan in force."""
        found = {}
        for name, speed in self._speeds.items():
            kind = self._kinds[name]
            known = self._expected.get(key_of(kind))
            if known is not None:
                found[name] = Served(kind, known.stage, known.gpu, speed, known.error)
        return found

    def _news(self, found: list[Drift]) -> list[Drift]:
        news = [drift for drift in found if drift.about not in self._told]
        there = {drift.about for drift in found}
        missed = {about: 0 if about in there else n + 1 for about, n in self._told.items()}
        news += [
            Drift(about, f"{about} is as fast as it should be again", {"over": about})
            for about, n in missed.items()
            if n >= GONE
        ]
        self._told = {about: n for about, n in missed.items() if n < GONE} | dict.fromkeys(there, 0)
        return news


def _seen(came: Totals, seconds: float, lengths: Lengths) -> Seen:
    if came.requests:
        prompt = came.prompt_tokens / came.requests
        lengths = Lengths(prompt, prompt + came.tokens / came.requests / 2)
    return Seen(seconds, came.prompt_tokens, came.tokens, came.decode_s, lengths.prompt, lengths.context)


class LocalEngines:
    """Engines of the fleet on this machine in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def metrics(self) -> Mapping[str, tuple[Kind, str]]:
        try:
            document = await ask(self._folder, "observe")
            with told_by(self._folder):
                ready = [r for r in observed_of(document).replicas if r.state == "ready"]
        except CascadiaError:
            return {}
        urls = {replica["name"]: replica["url"] for replica in document["replicas"]}
        return await metrics_of({r.name: (r.kind, urls[r.name]) for r in ready})


async def metrics_of(engines: Mapping[str, tuple[Kind, str]]) -> dict[str, tuple[Kind, str]]:
    """Metrics of the engines at these addresses, asked together; without those that do not answer."""
    texts = await asyncio.gather(*(_text(url) for _, url in engines.values()))
    said = zip(engines.items(), texts, strict=True)
    return {name: (kind, text) for (name, (kind, _)), text in said if text is not None}


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are trusted: to read them takes 10 ms and more, too long for each of hundreds of engines."""
    return httpx.create_ssl_context(trust_env=False)


async def _text(url: str) -> str | None:
    # A client each: those that hang would keep the others from one pool, which asks for all of them at each change.
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, verify=_trusted()) as client,
        ):
            answer = await client.get(f"{url}/metrics")
    except (httpx.HTTPError, TimeoutError):
        return None
    return answer.text if answer.status_code == 200 else None
