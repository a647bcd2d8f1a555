"""`judge` and `verifiers` of router.yaml, less the replicas: what each kind may say, and what must hold of it."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cascadia.domain.errors import BadInput
from cascadia.router.settings.model import Combine, JudgeSettings, StageSettings, Statistic
from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.prompt import PROMPT_VERSION
from cascadia_judge.scores.verifiers import Verifier

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
JudgeKind = Literal["llm", "embedding", "probe", "certainty", "agreement", "ensemble"]

_ALWAYS = {"kind", "timeout_s", "on_failure", "weight", "scale"}
_OWN: dict[JudgeKind, set[str]] = {
    "llm": {"model", "replicas", "reads_tokens", "cache_size", "prompt_version"},
    "embedding": {"replicas", "certainty", "cache_size"},
    "probe": set(),
    "certainty": {"statistic", "points"},
    "agreement": {"samples", "temperature", "extract"},
    "ensemble": {"members", "combine"},
}


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JudgeFields(_Fields):
    """All but `replicas` and `members`."""

    kind: JudgeKind
    model: str | None = None
    timeout_s: Positive = 10.0
    on_failure: Literal["escalate", "accept"] = "escalate"
    reads_tokens: int = Field(8192, ge=16)
    cache_size: int = Field(4096, ge=0, le=10_000_000)
    statistic: Statistic = "margin"
    points: list[tuple[float, float]] = Field(
        default_factory=list, description="[statistic, score] pairs, ascending; straight lines between them."
    )
    certainty: bool = Field(True, description="Whether the judge is told the engine's log-probabilities.")
    samples: int = Field(2, ge=1, le=16, description="Further answers of the same stage to compare with.")
    temperature: float = Field(0.8, gt=0, le=2)
    extract: str | None = Field(None, description="Regular expression: what of an answer is compared.")
    scale: Positive | None = Field(
        None,
        description="Scale of the scores that thresholds were chosen on; a plan whose table had another is refused.",
    )
    prompt_version: str | None = Field(
        None,
        description="Version of the prompt that thresholds were chosen with; a router that asks with another refuses.",
    )
    weight: Positive = 1.0
    combine: Combine = "mean"

    def settings(
        self, where: str, stage: StageSettings | None, members: Sequence[JudgeSettings]
    ) -> JudgeSettings:
        """Raises `BadInput`."""
        for key in sorted(self.model_fields_set - _ALWAYS - _OWN[self.kind]):
            of = ", ".join(kind for kind, keys in _OWN.items() if key in keys)
            raise BadInput(f"{where}.{key}", f"is not of a judge of kind {self.kind}", f"it is of kind {of}")
        if self.kind == "ensemble" and len(members) < 2:
            raise BadInput(f"{where}.members", "are fewer than two", "list the judges to be combined")
        for i, member in enumerate(members):
            if member.kind == "ensemble":
                raise BadInput(f"{where}.members[{i}]", "is an ensemble itself", "list its members here")
            if member.stage is None and member.kind in ("llm", "embedding"):
                raise BadInput(f"{where}.members[{i}].replicas", "is empty", "name the judge's addresses")
        check_prompt(self.prompt_version, f"{where}.prompt_version")
        return JudgeSettings(
            kind=self.kind,
            stage=stage,
            timeout_s=self.timeout_s,
            on_failure=self.on_failure,
            reads_tokens=self.reads_tokens,
            cache_size=self.cache_size,
            statistic=self.statistic,
            points=_ascending(self.points, f"{where}.points"),
            certainty=self.certainty,
            samples=self.samples,
            temperature=self.temperature,
            extract=_pattern(self.extract, f"{where}.extract"),
            members=tuple(members),
            scale=self.scale,
            weight=self.weight,
            combine=self.combine,
        )


def check_prompt(version: str | None, where: str) -> None:
    """Raises `BadInput` where scores were made with another prompt than this router asks with."""
    if version not in (None, PROMPT_VERSION):
        raise BadInput(
            where,
            f"is {version}, and this router's judge is asked with {PROMPT_VERSION}",
            "thresholds on one mean nothing to the other: plan on scores of `cascadia profile quality` of this release",
        )


class VerifierFields(_Fields):
    kind: Literal["regex", "json-schema", "python-syntax"]
    pattern: str | None = None
    absent: bool = Field(False, description="Turns regex round: the pattern must not be found.")
    json_schema: dict[str, Any] | None = Field(None, alias="schema")

    def verifier(self, where: str) -> Verifier:
        """Raises `BadInput`."""
        wanted = {"regex": "pattern", "json-schema": "schema"}.get(self.kind)
        given = {"pattern": self.pattern, "schema": self.json_schema}
        for name, value in given.items():
            if value is not None and name != wanted:
                raise BadInput(f"{where}.{name}", f"is not of kind {self.kind}", "remove it")
        if wanted is not None and given[wanted] is None:
            raise BadInput(f"{where}.{wanted}", "is missing", f"a verifier of kind {self.kind} needs it")
        if self.absent and self.kind != "regex":
            raise BadInput(f"{where}.absent", f"is not of kind {self.kind}", "remove it")
        try:
            return Verifier(self.kind, given[wanted] if wanted else None, self.absent)
        except BadVerdict as error:
            raise BadInput(where, error.what, error.instead) from None


def _ascending(points: Sequence[tuple[float, float]], where: str) -> tuple[tuple[float, float], ...]:
    for (x0, y0), (x1, y1) in pairwise(points):
        if not x0 < x1 or not y0 <= y1:
            raise BadInput(where, f"[{x1:g}, {y1:g}] does not ascend from [{x0:g}, {y0:g}]", "order them")
    if any(not 0 <= y <= 100 for _, y in points):
        raise BadInput(where, "has a score out of range", "write scores of 0-100")
    return tuple((float(x), float(y)) for x, y in points)


def _pattern(pattern: str | None, where: str) -> str | None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadInput(
                where, f"is no regular expression ({error})", "write one for Python's re"
            ) from None
    return pattern
