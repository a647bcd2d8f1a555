"""A probe in front of the engine: the score has come with the answer, so that there is nobody to ask."""

from collections.abc import Mapping
from typing import Any

from cascadia.router.gates.base import JudgeFailed
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.requests import Api

SKIP_BELOW = "cascadia_skip_below"
"""Of a request: the answer is not begun where the probe expects less of it, once the question is read."""
HEARD_CHARACTERS = 80
KINDS = frozenset({"unlike", "unreadable", "other"})


class ProbeGate:
    """Fails as `unlike` where the question is unlike those that the probe was trained on, and as `no-probe` where
    nothing in front of the engine says anything."""

    def __init__(self) -> None:
        self.heard: str | None = None
        """The probe that gave the last score; None: there was none yet."""

    def wants(self, api: Api) -> Mapping[str, Any]:  # noqa: ARG002 (the score comes unasked)
        return {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:  # noqa: ARG002
        probed = choice.probed
        if probed is None:
            raise JudgeFailed("no-probe")
        if probed.score is None:
            raise JudgeFailed(f"probe-{probed.failed}" if probed.failed in KINDS else "probe-failed")
        if not 0.0 <= probed.score <= 100.0:
            raise JudgeFailed("unreadable")
        self.heard = probed.judge[:HEARD_CHARACTERS]
        return probed.score
