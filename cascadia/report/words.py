"""The plan in sentences."""

import math
from collections.abc import Iterable, Mapping, Sequence

from cascadia.domain.names import JUDGE
from cascadia.domain.objective import Level
from cascadia.domain.plan import (
    ASKS_NONE,
    ExitPlan,
    LevelPrediction,
    Plan,
    Scale,
    StageCalibration,
    StagePlan,
    StagePrediction,
)
from cascadia.report import numbers
from cascadia.report.names import (
    device,
    gpu_label,
    gpus_in_words,
    listing,
    model_label,
    model_short,
    printable,
)
from cascadia.report.numbers import asked_for, lower_bound, percent, plural, rate, score, seconds, usd

Names = Mapping[str, str]
MOST = 100.0
"""Of scores."""

OTHER_RATES = {0.5: "half the rate", 1.5: "1.5 times", 2.0: "twice"}

HARDLY = 1.05
"""Of a plan that carries less than this times its rate, no factor is told."""


def headline(plan: Plan, names: Names) -> str:
    """Headline on what serves what: the one sentence to remember."""
    goal, predicted = plan.objective, plan.predicted
    verb = "serves" if plan.gpus == 1 else "serve"
    who = gpus_in_words(plan.groups, plan.cluster, names) if plan.gpus else "APIs alone"
    start = f"{who} {verb} {rate(predicted.rate_rps)}"
    latency = f"{quantile_name(plan)} {seconds(predicted.objective_s)}"
    if goal.goal == "quality":
        within = f" within {seconds(goal.deadline.max_s)}" if goal.deadline is not None else ""
        return f"{start}{within} ({latency}) at quality {lower_bound(predicted.quality.lower)} or better"
    at = f" at quality ≥ {asked_for(goal.quality_min)}" if goal.quality_min else ""
    cost = f" for {usd(predicted.usd_per_hour)}/h" if goal.goal in ("cost", "rate") else ""
    return f"{start}{at} with {latency}{cost}"


def answered(plan: Plan, names: Names) -> str:
    """Sentence on which share of requests each stage answers, and on what."""
    parts: list[str] = []
    for stage, predicted in deployed(plan):
        on = f"on {gpus_in_words(stage.replicas, plan.cluster, names)}" if stage.replicas else "elsewhere"
        share = percent(predicted.accepted)
        who = f"{printable(stage.name)} ({model_short(stage.model)})"
        parts.append(
            f"{share} of requests are answered by {who} {on}" if not parts else f"{share} by {who} {on}"
        )
    left_out = [printable(stage.name) for stage in plan.stages if not stage.deployed]
    sentence = f"{listing(parts)}."
    if left_out:
        sentence += f" Not deployed: {listing(left_out)}."
    return sentence


def gates(plan: Plan) -> str:
    """Sentence on when an answer is accepted, and who says so."""
    steps = deployed(plan)
    parts, skipped = [], []
    for stage, _ in steps[:-1]:
        parts.append(f"{printable(stage.name)}'s answer {_gate(plan, stage.name)}")
        if (least := plan.foreseen_from(stage.name)) is not None:
            skipped.append(
                f"{printable(stage.name)} is not asked where the question alone promises less than {score(least)}"
            )
    if not parts:
        return f"Every request goes straight to {printable(steps[-1][0].name)}; there is no gate to pass."
    if plan.mixture is not None and not plan.judges:
        return f"No answer is judged. {mixture(plan)}"
    if plan.mixture is not None:
        return f"{judge(plan)} scores answers from 0 to 100. {mixture(plan)}"
    after = "Whatever is not accepted goes on to the next stage, and the last one always answers."
    before = f" Before that, {listing(skipped)}." if skipped else ""
    return f"{judge(plan)} scores answers from 0 to 100: {listing(parts)}.{before} {after}"


def mixture(plan: Plan) -> str:
    """Both routings of a mixture, each with its share; empty where none is mixed."""
    if plan.mixture is None:
        return ""
    shares = (1.0 - plan.mixture.share, plan.mixture.share)
    parts = [
        f"{percent(part, 1)} of the requests {'go' if not i else 'instead'}: {_way(plan, thresholds, skips)}"
        for i, (part, (thresholds, skips)) in enumerate(zip(shares, plan.routings, strict=True))
    ]
    return f"Two routings are mixed, request by request in turn. {'; '.join(parts)}."


def gears(plan: Plan) -> str:
    """Sentence on what each gear promises, and up to how much load; empty where one setting serves any."""
    if len(plan.gears) < 2:
        return ""
    parts = []
    for gear in plan.gears:
        upto = "beyond" if gear.max_in_flight is None else f"up to {gear.max_in_flight:,.0f} under way"
        told = gear.predicted
        promise = (
            ""
            if told is None
            else f": quality {lower_bound(told.quality_lower)} ({percent(told.request_share)} of requests)"
        )
        parts.append(f"{upto}{promise}")
    return "; ".join(parts)


def _way(plan: Plan, thresholds: tuple[float, ...], skips: tuple[float, ...]) -> str:
    """`small (score ≥ 50), then large`: the stages that one routing asks, in order."""
    names = {stage.name: i for i, stage in enumerate(plan.stages)}
    way = []
    for stage, _ in deployed(plan):
        at = names[stage.name]
        gate = thresholds[at] if at < len(thresholds) else 0.0
        if at < len(skips) and skips[at] >= ASKS_NONE:
            continue
        way.append(
            f"{printable(stage.name)} ({threshold_words([gate])})" if gate > 0 else printable(stage.name)
        )
        if gate <= 0:
            break
    return ", then ".join(way)


def load(predicted: StagePrediction) -> str:
    """The share of what a stage's replicas sustain that it is sent; a dash where the plan does not tell."""
    return "–" if predicted.load is None else percent(predicted.load)


def carries(plan: Plan) -> str:
    """Sentence on how much more the plan carries, and how that was found out; empty where the plan does not
    tell.
    """
    found, stability = plan.headroom, plan.stability
    if found is None or stability is None:
        return ""
    times = "this rate and hardly more" if found < HARDLY else f"{_times(found)} this rate{_aside(plan)}"
    once = "the trace" if stability.rounds == 1 else f"{stability.rounds} rounds of the trace"
    quantile = f"p{100 * plan.objective.quantile:g} {seconds(stability.objective_repeated_s)}"
    return (
        f"carries {times}: {once} {stability.repeats} times end to end has {quantile}"
        f" after {seconds(stability.objective_once_s)}, and no queue that grows"
    )


def headroom(plan: Plan) -> str:
    """Headroom for a tile; empty where the plan does not tell."""
    if plan.headroom is None:
        return ""
    if plan.headroom < HARDLY:
        return "; it carries hardly more"
    return f"; it carries {_times(plan.headroom)}{_aside(plan)}"


def _aside(plan: Plan) -> str:
    """Words on what headroom does not count."""
    return ", its bounds on latency aside" if plan.objective.bounds else ""


def _times(factor: float) -> str:
    """Rounded down, to what it was found to."""
    return f"{math.floor(factor * 20 + 1e-9) / 20:g}×"


def blocks(plan: Plan) -> str:
    """Sentence on how to read the picture of GPUs."""
    ranks = any(group.pp > 1 for group in plan.groups)
    pipelines = "; the number after the point is the pipeline rank" if ranks else ""
    return (
        f"Each block is a tensor-parallel group, numbered by replica{pipelines}. "
        "On which nodes they stand is up to the scheduler: this is one way that fits."
    )


def judge(plan: Plan) -> str:
    kind = plan.judge
    if kind.kind == "embedding":
        return "An embedding judge beside the router"
    if kind.kind == "probe":
        return "A probe of the models' hidden states"
    if kind.kind == "certainty":
        return "The models' own certainty"
    model = f" ({model_label(kind.model)})" if kind.model else ""
    where = (
        f" on {plural(kind.gpus, device(plan.cluster.pools))} of its own"
        if kind.gpus
        else ", an external service,"
    )
    return f"The judge{model}{where}"


def quality(plan: Plan) -> str:
    q = plan.predicted.quality
    bar = plan.objective.quality_min
    asked = f", where at least {asked_for(bar)} was asked for" if bar else ""
    return (
        f"Quality is {numbers.quality(q.mean)} of 100 on average over {plural(q.questions, 'question')}; "
        f"with {percent(q.confidence)} confidence it is {lower_bound(q.lower, bar)} or better{asked}."
    )


def latency(plan: Plan) -> str:
    e2e, ttft = plan.predicted.e2e, plan.predicted.ttft
    return (
        f"Half of the requests are answered within {seconds(e2e.p50_s)}, 95 % within {seconds(e2e.p95_s)} and "
        f"99 % within {seconds(e2e.p99_s)}; the first token comes after {seconds(ttft.p50_s)} at the median "
        f"and {seconds(ttft.p95_s)} at p95."
    )


def levels(plan: Plan) -> str:
    """Sentence on what is reached of each service level; empty where none is asked for."""
    return "; ".join(
        f"{_level_name(level)} {seconds(level.reached_s)} (at most {seconds(level.max_s)}; "
        f"{percent(level.attained, 1)} of requests keep it)"
        for level in plan.predicted.levels
    )


def _level_name(level: LevelPrediction) -> str:
    return Level(level.metric, level.quantile, level.max_s).name


def error_range(plan: Plan) -> str:
    """Sentence on what the calibrations' errors make of the objective's quantile; empty where the plan does not
    tell.
    """
    found = plan.error_range
    if found is None:
        return ""
    span = numbers.span(found.fast_s, found.slow_s)
    return (
        f"{quantile_name(plan)} {seconds(plan.predicted.objective_s)} ({span} within the calibrations' errors, "
        f"{_errors(plan.calibrations.values())})"
    )


def question_range(plan: Plan) -> str:
    """Sentence on the objective's quantile with other questions of the table's kind; empty where the plan does not
    tell.
    """
    found = plan.question_range
    if found is None:
        return ""
    span, asked = numbers.span(found.low_s, found.high_s), plan.predicted.quality.questions
    return (
        f"{quantile_name(plan)} {span} with other questions like the table's {asked:,}, "
        f"{percent(found.confidence)} confidence at either end"
    )


def at_other_rates(plan: Plan) -> str:
    """Sentence on the GPUs that keep the plan's bounds at other rates; empty where the plan does not tell."""
    found = plan.scaling
    if found is None:
        return ""
    units = [*((stage.name, stage.replicas) for stage in plan.stages), (JUDGE, plan.judge.replicas)]

    def gpus(scale: Scale) -> int:
        pairs = (zip(scale.replicas.get(name, ()), groups, strict=False) for name, groups in units)
        return sum(n * group.tp * group.pp for each in pairs for n, group in each)

    told = []
    for times, said in OTHER_RATES.items():
        scale = next((scale for scale in found.scales if scale.times >= times), None)
        told += [f"{gpus(scale):,} at {said}"] if scale is not None else []
    return f"GPUs within the bounds: {', '.join(told)}" if told else ""


def _errors(used: Iterable[StageCalibration]) -> str:
    """The errors a token, from the least to the largest."""
    errors = [c.error_tpot for stage in used for c in stage.pools]
    if not errors:
        return "none told"
    least, most = percent(min(errors)), percent(max(errors))
    return f"± {most} a token" if least == most else f"± {least} to {most} a token"


def both_latencies(plan: Plan) -> str:
    """Sentence on why the allocation's figure and the simulated one differ."""
    name = quantile_name(plan)
    bound = plan.predicted.stage_bound_s
    alone = (
        f"the least {name} it can give the slowest one is {seconds(bound)}"
        if math.isfinite(bound)
        else "for this plan it proved no bound"
    )
    return (
        f"Two figures, two questions. The allocation looks at each stage by itself, in its latency table: {alone}. "
        f"What a user waits for is the whole way through the cascade: the end-to-end {name} is "
        f"{seconds(plan.predicted.objective_s)}, simulated with queueing, verdicts and escalations. "
        "Plans are chosen by the second."
    )


def usd_per_1m_tokens(plan: Plan, tokens_per_request: float | None) -> float | None:
    """Dollars for a million tokens that clients send and get; None where their number is not known."""
    if not tokens_per_request:
        return None
    return plan.predicted.usd_per_1k_requests * 1000 / tokens_per_request


def other_prices(plan: Plan, tokens_per_request: float | None) -> str:
    """Prices an hour and for a million tokens, as a tile's detail."""
    per_1m = usd_per_1m_tokens(plan, tokens_per_request)
    return f"{usd(plan.predicted.usd_per_hour)} an hour" + (f"; {usd(per_1m)}/1M tokens" if per_1m else "")


def cost(plan: Plan, names: Names, tokens_per_request: float | None = None) -> str:
    used, total = plan.gpus, plan.cluster.gpus
    per_1m = usd_per_1m_tokens(plan, tokens_per_request)
    tokens = f" ({usd(per_1m)} per million tokens that clients send and get)" if per_1m else ""
    spare = (
        f" {total - used:,} of {plural(total, device(plan.cluster.pools))} {_stay(total - used)} free."
        if used < total
        else ""
    )
    return (
        f"The plan costs {usd(plan.predicted.usd_per_hour)} an hour "
        f"({'; '.join(filter(None, (prices(plan, names), elsewhere(plan))))}), or "
        f"{usd(plan.predicted.usd_per_1k_requests)} per 1,000 requests{tokens}.{spare}"
    )


def prices(plan: Plan, names: Names) -> str:
    """Prices of the GPUs in use."""
    pools = {group.pool for group in plan.groups if group.count}
    each = {
        f"{gpu_label(pool.gpu, names)} at {usd(pool.paid_usd_per_gpu_hour)}/h": None
        for pool in plan.cluster.pools
        if pool.name in pools
    }
    return listing(list(each))


def elsewhere(plan: Plan) -> str:
    """Price of stages and judge elsewhere; empty where there is none."""
    paid = plan.predicted.usd_per_hour_elsewhere
    names = [printable(stage.name) for stage in plan.stages if stage.external is not None]
    judge = plan.judge
    if plan.judges and (judge.usd_per_million_input_tokens or judge.usd_per_million_output_tokens):
        names.append("the judge")
    return f"{usd(paid)}/h of it for tokens of {listing(names)}" if names else ""


BEST = {
    "latency": "Fastest",
    "cost": "Cheapest",
    "quality": "At the highest quality found, cheapest",
    "rate": "At the highest rate found, cheapest",
}

SMALL_CASES = "On small cases all of 65 plans were within 0.5 % of enumeration."
"""As measured by `tests.benchmarks.bench_optimality` (docs/models/planner.md)."""


def proof(plan: Plan) -> str:
    """Sentence on how sure it is that there is no better plan, in the terms of its goal."""
    p = plan.proof
    tried = f"{p.tried:,} deployments" if p.tried else "the deployments"
    proven = "the allocation alone is proven" if p.status == "optimal" else "nothing is proven"
    goal = plan.objective.goal
    best = BEST[goal]
    if goal == "latency" and plan.objective.within > 0:
        best = f"Cheapest within {percent(plan.objective.within)} of the fastest"
    return f"{best} of {tried} tried, each simulated end to end; {proven}. {SMALL_CASES}"


def allocation(plan: Plan) -> str:
    """Sentence on what was proven of the step that gives GPUs to stages, for the report."""
    p = plan.proof
    what = f"the slowest stage's {quantile_name(plan)}"
    if p.status == "optimal":
        return (
            "Proven of the step that gives GPUs to stages: with these thresholds and latency tables, no allocation "
            f"to the shapes considered brings {what} below {seconds(p.bound_s)}."
        )
    if not (math.isfinite(p.objective_s) and math.isfinite(p.bound_s) and p.bound_s > 0):
        return "How far the best possible allocation is from the one found was not proven."
    return (
        f"When the solver stopped, the allocation's {what.removeprefix('the ')} was {seconds(p.objective_s)}, and none "
        f"can bring it below {seconds(p.bound_s)}, so at most {percent(p.gap, 1)} could still be gained in that step."
    )


def deployed(plan: Plan) -> list[tuple[StagePlan, StagePrediction]]:
    """The stages that requests pass, with what is predicted of them."""
    predicted = {stage.name: stage for stage in plan.predicted.stages}
    return [(s, predicted[s.name]) for s in plan.stages if s.deployed and s.name in predicted]


def limits(plan: Plan, stage: str) -> tuple[float, ...]:
    """Scores from which on the stage's answer is accepted, ascending: one, or those of the gears that ask the stage, or
    of both routings of a mixture. 0 where it is accepted whatever its score."""
    steps = deployed(plan)
    if steps and steps[-1][0].name == stage:
        return (0.0,)
    at = next(i for i, s in enumerate(plan.stages) if s.name == stage)
    if len(plan.gears) > 1:
        found = {
            gear.thresholds[at] if stage in gear.stages[:-1] and at < len(gear.thresholds) else 0.0
            for gear in plan.gears
            if stage in gear.stages
        }
    else:
        found = {
            thresholds[at] if at < len(thresholds) else 0.0
            for thresholds, skips in plan.routings
            if not (at < len(skips) and skips[at] >= ASKS_NONE)
        }
    own = plan.thresholds[at] if at < len(plan.thresholds) else 0.0
    return tuple(sorted({max(0.0, limit) for limit in found or {own}}))


def exit_name(exit_: ExitPlan) -> str:
    return f"at {exit_.thinking_tokens:,} thinking tokens" + (", the last" if exit_.last else "")


def threshold_words(
    limits: Sequence[float],
    always: str = "always",
    at: str = "score ≥ {}",
    *,
    to: str = " … ",
    or_: str = " or ",
) -> str:
    """`always`, `score ≥ 40`, or `score ≥ 40 … 50` where there are several; `never` for one that no score reaches."""
    middle = [score(limit) for limit in limits if 0 < limit <= MOST]
    span = to.join(dict.fromkeys((middle[0], middle[-1]))) if middle else ""
    parts = (
        always if any(limit <= 0 for limit in limits) else "",
        at.format(span) if span else "",
        "never" if any(limit > MOST for limit in limits) else "",
    )
    return or_.join(filter(None, parts))


def quantile_name(plan: Plan) -> str:
    return f"p{plan.objective.quantile * 100:g}"


def _gate(plan: Plan, stage: str) -> str:
    found = limits(plan, stage)
    by = ", by how many requests are under way" if len(found) > 1 and len(plan.gears) > 1 else ""
    return f"is {threshold_words(found, 'always accepted', 'accepted at {} or more')}{by}".replace(
        "never", "never accepted"
    )


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"


def guarantee(plan: Plan) -> str:
    """Sentence on what the quality bound means."""
    q = plan.predicted.quality
    return (
        f"The quality bound comes from {plural(q.questions, 'question')} and allows for the many thresholds that "
        f"were searched: of plans made like this, at least {percent(q.confidence)} keep theirs on new "
        "questions of the same kind."
    )
