"""Construction of a gate from a judge's settings, with the stages of its engines, and what can be said before a
stage is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.agreement import AgreementGate
from cascadia.router.gates.base import Gate, LlmGate
from cascadia.router.gates.cache import CachedGate
from cascadia.router.gates.certainty import CertaintyGate
from cascadia.router.gates.embedding import EmbeddingGate
from cascadia.router.gates.ensemble import EnsembleGate
from cascadia.router.gates.probe import ProbeGate
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import JudgeSettings, Limits
from cascadia.router.telemetry.metrics import Metrics

JUDGE = "judge"
PATIENCE = 0.9
"""A verdict that takes this share of the judge's time and is given up then is the judge's failure."""


@dataclass(frozen=True, slots=True)
class Judge:
    """`stages` are those of the judge's engines, to be watched as others are. `foresight`: an embedding
    judge."""

    gate: Gate | None = None
    stages: tuple[Stage, ...] = ()
    foresight: EmbeddingGate | None = None


def judge_of(
    settings: JudgeSettings | None, limits: Limits, metrics: Metrics, examiner: Examiner, held: HeldBytes
) -> Judge:
    if settings is None:
        return Judge()
    stages = {id(each): _stage(each, limits, metrics, held) for each in _engines(settings)}
    embeddings: list[EmbeddingGate] = []
    gate = _gate(settings, stages, embeddings, examiner)
    return Judge(gate, tuple(stages.values()), embeddings[0] if embeddings else None)


def _engines(settings: JudgeSettings) -> Iterator[JudgeSettings]:
    """Settings of a judge and its members that have engines of their own."""
    if settings.stage is not None:
        yield settings
    for member in settings.members:
        yield from _engines(member)


def _stage(settings: JudgeSettings, limits: Limits, metrics: Metrics, held: HeldBytes) -> Stage:
    assert settings.stage is not None
    # So the breaker opens for a slow judge as for one that is down, and its time-out is not waited out each time.
    patient = replace(settings.stage, slow_s=PATIENCE * settings.timeout_s)
    return Stage(patient, limits, metrics.stage(settings.stage.name), held)


def _gate(
    settings: JudgeSettings, stages: dict[int, Stage], embeddings: list[EmbeddingGate], examiner: Examiner
) -> Gate:
    match settings.kind:
        case "certainty":
            return CertaintyGate(examiner, settings.statistic, settings.points)
        case "agreement":
            return AgreementGate(examiner, settings.samples, settings.temperature, settings.extract)
        case "probe":
            return ProbeGate()
        case "ensemble":
            gates = [_gate(member, stages, embeddings, examiner) for member in settings.members]
            return EnsembleGate(gates, [member.weight for member in settings.members], settings.combine)
    stage = stages.get(id(settings))
    if stage is None:
        raise ValueError(f"a judge of kind {settings.kind} needs replicas")
    asked: Gate
    if settings.kind == "embedding":
        asked = EmbeddingGate(stage, examiner, settings.certainty)
        embeddings.append(asked)
    else:
        asked = LlmGate(stage, settings.reads_tokens)
    if not settings.cache_size:
        return asked
    return CachedGate(asked, settings.cache_size, sees_more=settings.kind == "embedding")
