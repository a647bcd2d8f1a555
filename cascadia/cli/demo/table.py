"""Measurements of `cascadia demo`, as a table and in words."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cascadia.demo.measuring.measured import Pass, paired
from cascadia.demo.measuring.skill import Skill, skill_of
from cascadia.domain.plan import Plan

if TYPE_CHECKING:
    from rich.table import Table

CASCADE = "cascadia"
EXAMPLES = 5
MOST_OFF = 2.0
"""Further than this from its plan, a p50 was measured on a busy machine, or the plan was."""


def results_table(passes: Sequence[Pass], plan: Plan, alone: dict[str, float]) -> "Table":
    """A column a way of answering. `alone`: accuracy 0-1 of each stage in the plan's quality table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for each in passes:
        table.add_column(_title(each, plan), justify="right")
    table.add_column("cascade\nas planned", justify="right")
    predicted = plan.predicted
    foreseen = {stage.name: stage.accepted for stage in predicted.stages}
    table.add_row(
        "right", *(f"{each.accuracy.value:.0%}" for each in passes), f"{predicted.quality.mean:.0f}%"
    )
    table.add_row("  95 % limits", *(_limits(each) for each in passes), f"≥ {predicted.quality.lower:.0f}%")
    table.add_row("  in plan's table", *(_known(each, alone) for each in passes), "")
    skill = skill_of(passes[0], passes[1], passes[-1])
    if skill is not None:
        blank = [""] * len(passes)
        table.add_row("  coin, as dear", f"{skill.coin:.0%}", *blank)
        table.add_row("  oracle, as dear", f"{skill.oracle:.0%}", *blank)
    for share, foretold in ((0.5, predicted.e2e.p50_s), (0.95, predicted.e2e.p95_s)):
        row = (f"{each.quantile_s(share):.2f} s" for each in passes)
        table.add_row(f"p{share * 100:.0f}", *row, f"{foretold:.2f} s")
    table.add_row("tokens in + out", *(f"{each.tokens[0]:.0f} + {each.tokens[1]:.1f}" for each in passes), "")
    table.add_row("engine seconds", *(f"{each.engine_s_per_question:.3f}" for each in passes), "")
    if any(paid := [_paid_usd(each, plan) for each in passes]):
        row = (f"${1000 * usd:.3f}" for usd in paid)
        foretold_usd = predicted.usd_per_hour_elsewhere / 3600 / predicted.rate_rps
        table.add_row("tokens, per 1,000", *row, f"${1000 * foretold_usd:.3f}")
    for stage in plan.stages:
        row = (f"{each.answered_by(stage.name):.0%}" for each in passes)
        table.add_row(f"answered by {stage.name}", *row, f"{foreseen.get(stage.name, 0.0):.0%}")
    return table


def examples_table(cascade: Pass) -> "Table":
    """The first questions as they came, right or wrong."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for answer in cascade.answers[:EXAMPLES]:
        mark = Text("right", style="green") if answer.right else Text("wrong", style="red")
        said = Text(f"{answer.question.text}  ").append(answer.text.strip(), style="bold")
        table.add_row(mark, answer.stage, said)
    return table


def findings(cascade: Pass, small: Pass, large: Pass, planned_p50_s: float) -> list[str]:
    """Better than the small one, cheaper than the large one: whether it is, and how sure that is."""
    over_small, over_large = (paired(cascade.answers, other.answers) for other in (small, large))
    cost = cascade.engine_s_per_question / large.engine_s_per_question - 1
    better = "Better than" if over_small.gain > 0 else "NOT better than"
    cheaper = "cheaper than" if cost < 0 else "NOT cheaper than"
    return [
        f"{better} {small.name} alone by {over_small.gain * 100:+.0f} points: right where it is wrong "
        f"{over_small.won} times, wrong where it is right {over_small.lost} times "
        f"(as much by luck: p = {over_small.by_luck:.2g}).",
        f"{cheaper.capitalize() if cost >= 0 else 'Cheaper than'} {large.name} alone: {cost * 100:+.0f} % engine "
        f"seconds a question, judge included; {over_large.gain * 100:+.0f} points right.",
        *_worth(skill_of(cascade, small, large)),
        *_stale(cascade.quantile_s(0.5) / planned_p50_s),
    ]


def dollars(passes: Sequence[Pass], plan: Plan) -> list[str]:
    """Cost of an hour at this rate, where a stage is paid by the token."""
    paid, rate_rps = [_paid_usd(each, plan) for each in passes], plan.predicted.rate_rps
    if not any(paid):
        return []
    own_usd = plan.predicted.usd_per_hour - plan.predicted.usd_per_hour_elsewhere
    hourly_usd = own_usd + 3600 * rate_rps * paid[0]
    return [
        f"An hour at this rate costs ${hourly_usd:.3f}: ${own_usd:.3f} for a core and ${hourly_usd - own_usd:.3f} of "
        f"tokens (planned: ${plan.predicted.usd_per_hour:.3f}); all by {passes[-1].name} would be "
        f"${3600 * rate_rps * paid[-1]:.3f}."
    ]


def _paid_usd(each: Pass, plan: Plan) -> float:
    """Dollars that stages elsewhere charge for a question, on average."""
    apis = {stage.name: stage.external for stage in plan.stages}
    usd = sum(
        api.usd(float(answer.input_tokens), float(answer.output_tokens))
        for answer in each.answers
        if (api := apis.get(answer.stage)) is not None
    )
    return usd / len(each.answers)


def _worth(skill: Skill | None) -> list[str]:
    if skill is None:
        return []
    gain = (skill.cascade - skill.coin) * 100
    return [
        f"Beyond a coin that is as dear, and sends {skill.large_share:.0%} of the questions to the large model: "
        f"{gain:+.0f} points (95 % limits {skill.gain_lower * 100:+.0f} to {skill.gain_upper * 100:+.0f}), "
        f"{skill.way:.0%} of the way to an oracle ({skill.lower:.0%} to {skill.upper:.0%})."
    ]


def _stale(ratio: float) -> list[str]:
    """`ratio`: the measured p50 to that of the plan, which rests on a calibration that is kept."""
    if 1 / MOST_OFF <= ratio <= MOST_OFF:
        return []
    return [
        f"p50 is {ratio:.1f} times what was planned: other programs use this machine now, or did when the engines were "
        "measured. cascadia demo --calibrate measures them again."
    ]


def as_json(passes: Sequence[Pass], plan: Plan, alone: dict[str, float]) -> dict[str, Any]:
    predicted = plan.predicted
    skill = skill_of(passes[0], passes[1], passes[-1])
    return {
        "skill": None if skill is None else asdict(skill) | {"way": skill.way},
        "measured": [
            {
                "name": each.name,
                "questions": len(each.answers),
                "accuracy": each.accuracy._asdict(),
                "p50_s": each.quantile_s(0.5),
                "p95_s": each.quantile_s(0.95),
                "input_tokens": each.tokens[0],
                "output_tokens": each.tokens[1],
                "engine_s_per_question": each.engine_s_per_question,
                "engine_s": each.engine_s,
                "usd_elsewhere_per_question": _paid_usd(each, plan),
                "answered_by": {stage.name: each.answered_by(stage.name) for stage in plan.stages},
            }
            for each in passes
        ],
        "predicted": {
            "accuracy": predicted.quality.mean / 100,
            "accuracy_lower": predicted.quality.lower / 100,
            "p50_s": predicted.e2e.p50_s,
            "p95_s": predicted.e2e.p95_s,
            "answered_by": {stage.name: stage.accepted for stage in predicted.stages},
            "rate_rps": predicted.rate_rps,
            "alone": alone,
        },
    }


def answers_json(passes: Sequence[Pass]) -> list[dict[str, Any]]:
    """Every answer, so that each figure can be checked."""
    return [
        {
            "pass": each.name,
            "question": answer.question.text,
            "kind": answer.question.kind,
            "right_answers": list(answer.question.check.right),
            "answer": answer.text,
            "right": answer.right,
            "stage": answer.stage,
            "score": answer.score,
            "seconds": round(answer.seconds, 4),
        }
        for each in passes
        for answer in each.answers
    ]


def _title(each: Pass, plan: Plan) -> str:
    if each.name == CASCADE:
        return "cascade"
    model = next((stage.model for stage in plan.stages if stage.name == each.name), each.name)
    # In lines of a few letters, so that the table fits on a terminal of 80 columns.
    return "\n".join([f"{each.name} alone", *textwrap.wrap(model.rpartition("/")[2], 14)])


def _limits(each: Pass) -> str:
    return f"{each.accuracy.lower * 100:.0f}–{each.accuracy.upper * 100:.0f}%"


def _known(each: Pass, alone: dict[str, float]) -> str:
    return f"{alone[each.name]:.0%}" if each.name in alone else ""
