"""The paper's tables 1 to 7 and figures 5 to 11, appendices F and K among them, beside ours."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import Any

from cascadia.report.markdown import figure
from cascadia.reproduce import judges, summary
from cascadia.reproduce import paper_cells as of
from cascadia.reproduce.adapt import transition
from cascadia.reproduce.cells import Result
from cascadia.reproduce.item import Item, Measured, Step
from cascadia.reproduce.summary import ALONE

OTHER = "Other models, questions, traces and bars, and simulated GPUs"
QUICK_BARS, QUICK_CASES = (90,), of.CASE_STUDIES[:2]
TRANSITION_LOAD, TRANSITION_CONFIDENCE = 2.0, 0.5


def steps(folder: Path, *, quick: bool) -> Iterator[Step]:
    """`quick`: one bar of four, two of six case studies, two sizes of cluster, and no transitions."""
    scratch = folder / "spec"
    yield Step("table-1", of.simulated)
    for bar, trace in QUICK_CASES if quick else of.CASE_STUDIES:
        yield Step(f"plan-{bar}-{trace}", lambda b=bar, t=trace: of.planned(of.TRIO, b, t, scratch))  # type: ignore[misc]
    for name, cascade in (("trio", of.TRIO), ("pair", of.PAIR)):
        for bar in QUICK_BARS if quick else of.BARS:
            for trace in (1,) if quick and name == "pair" else (1, 2, 3):
                yield Step(
                    f"{name}-{bar}-{trace}",
                    lambda c=cascade, b=bar, t=trace: of.compared(c, b, t, scratch),  # type: ignore[misc]
                )
    for trace in (1,) if quick else (1, 2, 3):
        yield Step(f"chunks-{trace}", lambda t=trace: of.chunked(t, scratch))  # type: ignore[misc]
    yield Step("judges", lambda: judges.measured(scratch))
    for nodes in of.NODES[:2] if quick else of.NODES:
        yield Step(f"time-{nodes}", lambda n=nodes: of.timed(n, scratch))  # type: ignore[misc]
    if not quick:
        yield Step("transition", lambda: _transition(folder / "transition"))


def _transition(folder: Path) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    found = transition.measure(TRANSITION_LOAD, TRANSITION_CONFIDENCE, folder.resolve())
    return [{**asdict(ran), "slo_scale": _or_none(ran.slo_scale)} for ran in found]


def items(measured: Measured) -> Iterator[Item]:
    yield _simulator(measured)
    yield from _case_studies(measured)
    yield _chunks(measured)
    if "transition" in measured:
        yield from _transitions(measured["transition"])
    yield _judges(measured["judges"])
    yield _cost(measured)
    trio, pair = (_results(measured, name) for name in ("trio", "pair"))
    yield _ratios("Figure 5", "SLO scale at which 95 % are in time, three models", trio, PAPER_SLO, slo=True)
    yield _ratios("Figure 6", "largest rate, three models", trio, PAPER_RATE, slo=False)
    yield _ratios("Figure 7", "SLO scale, two Llamas", pair, PAPER_PAIR, slo=True)
    yield _stage_latency(measured)
    yield _ablations(list(trio.values()))
    yield _running_time(measured)


PAPER_SLO = {
    ALONE: "2.8× (up to 4×); (85, 3): 3.75 and 11.88",
    "cascadeserve": "1.7× (up to 2.5×); (90, 1): 11.73 and 17.3",
}
PAPER_RATE = {ALONE: "3× (up to 5×)", "cascadeserve": "1.7× (up to 3.3×)"}
PAPER_PAIR = {
    ALONE: "2.6× (up to 3.8×) of both baselines",
    "cascadeserve": "as above",
    "pre-router": "1.27× at 80 (RouteLLM, appendix I)",
}


def _simulator(measured: Measured) -> Item:
    found = measured["table-1"]
    rows = tuple(
        (
            ", ".join(map(str, shape)),
            f"{real:.2f}",
            f"{real * (1 + theirs):.3f}",
            f"{theirs:.1%}",
            f"{ours:.3f}",
            f"{abs(ours / real - 1):.1%}",
        )
        for (shape, real, ours), theirs in ((row[:3], row[3]) for row in found["rows"])
    )
    return Item(
        "Table 1",
        "requests/s of Llama3-70B by (DP, TP, PP)",
        ("shape", "real", "paper's estimate", "its error", "ours", "our error"),
        rows,
        "The paper tells neither GPU nor load: ours are A100s with NVLink in pairs, eight requests at a time, and one "
        f"scale ({found['scale']:.3f}) fitted to all seven, so only the order and the spread are predicted.",
    )


TABLE_2 = {
    (90, 1): ("99, 91", "100, 94, 50", "4, 8, 20"),
    (85, 1): ("74, 64", "100, 62, 21", "4, 12, 16"),
    (80, 1): ("69, 25", "100, 54, 11", "6, 14, 12"),
    (80, 2): ("61, 18", "100, 31, 3", "8, 16, 8"),
    (80, 3): ("32, 0", "100, 23, 0", "18, 14, 0"),
    (70, 3): ("10, 0", "100, 5, 0", "24, 8, 0"),
}
TABLE_3 = {
    (90, 1): "4×TP1 / 2×TP4 / TP4PP3 + TP8",
    (85, 1): "2×TP2 / 6×TP2 / 2×TP8",
    (80, 1): "6×TP1 / 5×TP2 + TP4 / TP4PP3",
    (80, 2): "6×TP1 + TP2 / 8×TP2 / TP8",
    (80, 3): "10×TP1 + 4×TP2 / 2×TP4 + 3×TP2 / –",
    (70, 3): "16×TP1 + 4×TP2 / 4×TP2 / –",
}


def _case_studies(measured: Measured) -> Iterator[Item]:
    plans = {
        case: measured[name] for case in of.CASE_STUDIES if (name := f"plan-{case[0]}-{case[1]}") in measured
    }
    bars = dict(zip(of.BARS, of.TRIO.bars[::-1], strict=True))
    rows = tuple(
        (
            f"{bar}, {trace}",
            " / ".join(TABLE_2[bar, trace]),
            f"{bars[bar]:g}",
            ", ".join(f"{h:.0f}" for h in made["thresholds"]),
            ", ".join(f"{100 * r:.0f}" for r in made["reached"]),
            ", ".join(map(str, made["gpus"])),
        )
        for (bar, trace), made in plans.items()
    )
    yield Item(
        "Table 2",
        "thresholds, % of requests and GPUs by model, at (quality, trace)",
        ("case", "paper: thresholds / % / GPUs", "our bar", "thresholds", "%", "GPUs"),
        rows,
        f"{OTHER}. What can be compared: a lower bar asks the largest model less and gives it fewer GPUs.",
    )
    yield Item(
        "Table 3",
        "parallelism by model",
        ("case", "paper", "ours"),
        tuple(
            (f"{b}, {t}", TABLE_3[b, t], " / ".join(map(_shapes, made["shapes"])))
            for (b, t), made in plans.items()
        ),
        f"{OTHER}; our largest model has 72 billion weights, the paper's 671.",
    )


def _shapes(groups: Sequence[tuple[int, int, int]]) -> str:
    told = [
        (f"{count}×" if count > 1 else "") + f"TP{tp}" + (f"PP{pp}" if pp > 1 else "")
        for count, tp, pp in groups
        if count
    ]
    return " + ".join(told) or "–"


SARATHI = {
    1: ("0.2529", "0.1913", "1.32×"),
    2: ("0.4659", "0.2385", "1.95×"),
    3: ("0.6406", "0.3977", "1.61×"),
}


def _chunks(measured: Measured) -> Item:
    rows = []
    for trace, (ours, theirs, ratio) in SARATHI.items():
        if (found := measured.get(f"chunks-{trace}")) is None:
            continue
        tokens, alone = max(found["alone"].items(), key=lambda pair: pair[1])
        by_size = ", ".join(f"{size}: {figure(rps)}" for size, rps in found["alone"].items())
        rows.append(
            (
                str(trace),
                f"{ours} / {theirs} = {ratio}",
                f"{figure(found['cascade'])} / {figure(alone)} = {found['cascade'] / alone:.2f}× at {tokens}",
                by_size,
            )
        )
    return Item(
        "Table 4 (appendix F)",
        "requests/s of the cascade over the large model with chunked prefill, its best chunk size",
        ("trace", "paper (Sarathi-Serve)", "ours", "large model by chunk size"),
        tuple(rows),
        f"{OTHER}. The large model alone gets all GPUs and its best shapes, as ours do.",
    )


TABLE_5 = {"Cascadia": (8.99, "–"), "CascadeServe": (13.55, "34 %"), "the large model alone": (16.37, "45 %")}


def _transitions(found: Sequence[dict[str, Any]]) -> Iterator[Item]:
    scales = {ran["system"]: inf if ran["slo_scale"] is None else ran["slo_scale"] for ran in found}
    ours = scales["Cascadia"]
    why = (
        "The traces are not public: ours are generated, and fall in difficulty and rise in rate as the paper's "
        "throughputs say."
    )
    yield Item(
        "Table 5 (appendix G)",
        "SLO scale for 95 % over three traces of 8, 16 and 10 minutes",
        ("system", "paper", "ours is less by", "ours", "ours is less by"),
        tuple(
            (
                name,
                f"{TABLE_5[name][0]}",
                TABLE_5[name][1],
                figure(scale) if isfinite(scale) else "inf",
                "–" if name == "Cascadia" else f"{100 * (1 - ours / scale):.0f} %",
            )
            for name, scale in scales.items()
        ),
        f"{why} inf: more than 5 % were turned away.",
    )
    yield Item(
        "Figure 11",
        "throughput while traces change",
        ("system", "paper", "ours, requests/s answered in time of offered"),
        tuple(
            (
                ran["system"],
                "2.2× (up to 4.4×) of the others" if ran["system"] == "Cascadia" else "",
                f"{ran['done_rps']:.1f} of {ran['offered_rps']:.1f}",
            )
            for ran in found
        ),
        f"{why} Ours offers one rate to all, so what is answered has a ceiling.",
    )


TABLE_6 = {
    "GPT-4o": ("0", "0", "0"),
    "GPT-4o-mini": ("-9.4", "+11.1", "+6.8"),
    "Llama3.1-70B": ("-8.6", "+9.4", "+5.5"),
}


def _judges(found: dict[str, Any]) -> Item:
    base = found["GPT-4o"]
    rows = []
    for name, made in found.items():
        score = f"{100 * (made['score'] / base['score'] - 1):+.1f}"
        if "error" in made:
            figures = (score, made["error"], "", "")
        else:
            changes = (
                f"{100 * (made['larger'] - base['larger']):+.1f}",
                f"{100 * (made['p95_s'] / base['p95_s'] - 1):+.1f}",
                f"{made['quality']:.1f} (≥ {made['lower']:.1f})",
            )
            figures = (score, *changes)
        rows.append((name, ", ".join(TABLE_6.get(name.split(",")[0], ())) or "no figures", *figures))
    return Item(
        "Table 6 (appendix K)",
        f"weaker and pairwise judges at the same bar ({judges.BAR:g})",
        (
            "judge",
            "paper: score %, larger model +%, p95 +%",
            "score %",
            "larger model, points",
            "p95 %",
            "quality",
        ),
        tuple(rows),
        "The weaker judges' scores are not public: ours are GPT-4o's lowered by the paper's deviation, with noise. "
        "The pairwise judge sees whether GPT-4o scored the answer below, like or above "
        f"{judges.REFERENCE}'s. Lower scores alone move thresholds, not "
        "the routing. GPT-4o gives ten levels: a little noise splits them, so thresholds hit the bar more closely.",
    )


TABLE_7 = {ALONE: (0.15, 0.26, 0.31), "cascadeserve": (0.14, 0.18, 0.15), "cascadia": (0.10, 0.11, 0.12)}


def _cost(measured: Measured) -> Item:
    """The GPUs' price over the largest rate: all systems have the same GPUs."""
    rows = []
    for trace in (1, 2, 3):
        found = Result(**measured[f"trio-90-{trace}"])
        usd_per_s = found.figure("cascadia", "usd_per_hour") / 3600
        ours = {s: usd_per_s / summary.rate_rps(found, s) for s in TABLE_7}
        theirs = {s: usd[trace - 1] for s, usd in TABLE_7.items()}
        rows.append(
            (
                str(trace),
                " / ".join(f"{usd:.2f}" for usd in theirs.values()),
                _less(theirs),
                " / ".join(f"{1000 * usd:.3f}" for usd in ours.values()),
                _less(ours),
            )
        )
    return Item(
        "Table 7 (appendix L)",
        "$ a request: stand-alone / CascadeServe / Cascadia, at the highest bar",
        ("trace", "paper, $", "ours is less by", "ours, $ per 1,000", "ours is less by"),
        tuple(rows),
        f"{OTHER}; the price of what our plan holds over the largest rate that each carries. The judge's own charge "
        "is left out, as in the paper.",
    )


def _less(usd: dict[str, float]) -> str:
    """Percentages by which Cascadia's is less than each other's."""
    return " / ".join(
        f"{100 * (1 - usd['cascadia'] / other):.0f} %" for s, other in usd.items() if s != "cascadia"
    )


def _results(measured: Measured, name: str) -> dict[tuple[int, int], Result]:
    return {
        (bar, trace): Result(**measured[f"{name}-{bar}-{trace}"])
        for bar in of.BARS
        for trace in (1, 2, 3)
        if f"{name}-{bar}-{trace}" in measured
    }


def _ratios(
    name: str, shows: str, found: dict[tuple[int, int], Result], paper: dict[str, str], *, slo: bool
) -> Item:
    read, ratios = (summary.slo_scale, summary.by_slo_scale) if slo else (summary.rate_rps, summary.by_rate)
    systems = ("cascadia", *paper)
    rows = [
        (f"{bar}, {trace}", *(figure(read(result, system)) for system in systems))
        for (bar, trace), result in found.items()
    ]
    results = list(found.values())
    rows.append(("ratio to ours, ours", "", *(ratios(results, system).told for system in paper)))
    rows.append(("ratio to ours, paper", "", *paper.values()))
    return Item(
        name,
        f"{shows}, by (quality, trace)",
        ("case", *systems),
        tuple(rows),
        f"{OTHER}. The paper's figure has no printed values but those quoted. –: does not keep up with the traffic.",
    )


def _stage_latency(measured: Measured) -> Item:
    rows = []
    for bar, trace in of.CASE_STUDIES:
        if (made := measured.get(f"plan-{bar}-{trace}")) is not None:
            stages = ", ".join(
                f"{s:.1f}" if g else "–" for s, g in zip(made["p95_s"], made["gpus"], strict=True)
            )
            rows.append((f"{bar}, {trace}", "drawn only", stages, f"{made['e2e_p95_s']:.1f}"))
    return Item(
        "Figure 8",
        "p95 of each model, s",
        ("case", "paper", "ours", "end to end"),
        tuple(rows),
        f"{OTHER}; the paper prints no values. It balances the models' p95; ours simulates end to end.",
    )


def _ablations(results: Sequence[Result]) -> Item:
    paper = {"uniform parallelism": "1.4× (up to 1.6×)", "uniform allocation": "1.7× (up to 2.1×)"}
    return Item(
        "Figure 9",
        "what uniform parallelism and allocation lose",
        ("without", "paper", "ours, SLO scale", "ours, largest rate"),
        tuple(
            (system, told, summary.by_slo_scale(results, system).told, summary.by_rate(results, system).told)
            for system, told in paper.items()
        ),
        f"{OTHER}.",
    )


def _running_time(measured: Measured) -> Item:
    paper = {4: "< 20 s", 10: "< 60 s"}
    rows = tuple(
        (str(8 * nodes), paper.get(nodes, "drawn only"), f"{found['wall_s']:.0f}", f"{found['cpu_s']:.0f}")
        for nodes in of.NODES
        if (found := measured.get(f"time-{nodes}")) is not None
    )
    return Item(
        "Figure 10",
        "planning time by GPUs, s",
        ("GPUs", "paper, 12 cores", "ours", "of CPU"),
        rows,
        "Other CPUs; ours also simulates its best plans end to end.",
    )


def _or_none(value: float) -> float | None:
    return value if isfinite(value) else None
