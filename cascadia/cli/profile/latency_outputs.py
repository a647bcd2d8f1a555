"""Outputs of `cascadia profile latency`: what was measured, what the fit makes of it, where it does not hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.profile.latency.profile import Profile
from cascadia.report.numbers import percent, seconds
from cascadia_sim.calibration.file import as_data
from cascadia_sim.fit.profile_check import Figures
from cascadia_sim.fit.profile_fit import LeftOut

if TYPE_CHECKING:
    from rich.table import Table

NAMES = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p95_s": "TTFT p95",
    "e2e_p50_s": "end to end p50",
    "e2e_p95_s": "end to end p95",
    "throughput_rps": "requests/s",
}


def tables(found: Profile) -> "Iterator[object]":
    c = found.fitted.calibration
    yield (
        f"{c.engine} {c.engine_version} on {c.gpu}, {found.setup.architecture.name}: {c.fit.points} points in "
        f"{seconds(found.took_s)}; fit {percent(c.fit.mean_error, 1)} off on average, a tenth of the points more than "
        f"{percent(c.fit.p90_error, 1)}; {seconds(found.fitted.request_s)} a request outside of iterations"
    )
    yield _left_out(found)
    if found.mixed is not None:
        yield _mixed(found)
    for reason in dict.fromkeys(found.left_out.values()):
        points = [p for p, why in found.left_out.items() if why == reason]
        told = ", ".join(f"{p.sequences} x {p.prompt_tokens}" for p in points)
        yield f"not measured (sequences x prompt tokens): {told}: {reason}"


def as_json(found: Profile, out: Path | None) -> dict[str, Any]:
    return {
        "calibration": as_data(found.fitted.calibration),
        "request_s": found.fitted.request_s,
        "held_out": [
            {"seen": one.seen, "predicted_s": one.predicted_s, "error": one.error}
            for one in found.fitted.left_out
        ],
        "mixed": _mixed_json(found),
        "missing": found.missing,
        "not_measured": [{"point": p, "why": why} for p, why in found.left_out.items()],
        "engine": found.facts,
        "took_s": found.took_s,
        "notes": found.notes,
        "out": out,
    }


def _left_out(found: Profile) -> "Table":
    """Each point beside what a fit without it, and without a third of the others, expects."""
    from rich.table import Table

    fit = found.fitted.calibration.fit
    title = "each predicted by a fit that left it out"
    if fit.held_out_mean_error is not None and fit.held_out_p90_error is not None:
        title += f": {percent(fit.held_out_mean_error, 1)} off on average, p90 {percent(fit.held_out_p90_error, 1)}"
    table = Table(title=title, title_justify="left")
    for name in ("", "sequences", "prompt", "measured", "predicted", "error"):
        table.add_column(name, justify="left" if not name else "right")
    for one in sorted(found.fitted.left_out, key=_place):
        o = one.seen
        what = "an iteration of decoding" if o.decodes else "first token"
        times = f"{o.seconds * 1e3:.1f} ms", f"{one.predicted_s * 1e3:.1f} ms"
        table.add_row(what, str(o.sequences), f"{o.prompt_tokens:.0f}", *times, f"{one.error:+.1%}")
    return table


def _place(one: LeftOut) -> tuple[bool, int, float]:
    return one.seen.decodes, one.seen.sequences, one.seen.prompt_tokens


def _mixed(found: Profile) -> "Table":
    from rich.table import Table

    assert found.mixed is not None
    table = Table(
        title=f"{found.mixed.requests} mixed requests, none of them fitted: simulated and as served",
        title_justify="left",
    )
    for name in ("", "measured", "predicted", "error"):
        table.add_column(name, justify="left" if not name else "right")
    for key, name in NAMES.items():
        measured, predicted = getattr(found.mixed.measured, key), getattr(found.mixed.predicted, key)
        shown = [
            f"{value:.3g}" if name == "requests/s" else seconds(value) for value in (measured, predicted)
        ]
        table.add_row(name, *shown, f"{predicted / measured - 1:+.1%}")
    return table


def _mixed_json(found: Profile) -> dict[str, Any] | None:
    if found.mixed is None:
        return None

    def figures(of: Figures) -> dict[str, float]:
        return of._asdict()

    return {
        "requests": found.mixed.requests,
        "measured": figures(found.mixed.measured),
        "predicted": figures(found.mixed.predicted),
    }
