"""Output of `cascadia simulate --explain`: an iteration's terms with bars, and the same batch on other shapes."""

from collections.abc import Iterator, Sequence
from typing import Any

from cascadia.planner.replay.iterations import Explained, NotOnShape, OnShape
from cascadia.report.numbers import figures, percent, seconds
from cascadia_sim.iteration.breakdown import Part

BAR = 40
"""Characters of a bar that takes all of the time."""


def tables(found: Sequence[Explained]) -> Iterator[object]:
    """Two tables for each group of replicas."""
    for explained in found:
        yield _terms(explained)
        yield _shapes(explained)


def as_json(found: Sequence[Explained]) -> dict[str, Any]:
    return {"explained": [_document(explained) for explained in found]}


def _terms(e: Explained) -> object:
    """Table of where the time goes, the longest first; terms that take none are left out."""
    from rich.table import Table

    title = (
        f"{e.stage}: {e.model}, {e.group.count} × {_shape(e.here)} on {e.gpu}\n"
        f"one iteration of {_batch(e)}: {_ms(e.here.iteration_s)}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("term")
    table.add_column("time", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", min_width=BAR)
    for part in _longest_first(e.here):
        if part.seconds > 0:
            share = part.seconds / e.here.iteration_s
            table.add_row(part.name, _ms(part.seconds), percent(share, 1), _bar(share))
    return table


def _shapes(e: Explained) -> object:
    from rich.table import Table

    table = Table(
        title=f"{e.stage}: the same batch on other shapes, PP of them in flight", title_justify="left"
    )
    for name in ("", "GPUs", "iteration", "tokens/s", "tokens/s/GPU", "KV cache in use", "largest terms"):
        table.add_column(name, justify="right" if name not in ("", "largest terms") else "left")
    table.add_row(*_figures(e.here), style="bold")
    for other in e.others:
        if isinstance(other, NotOnShape):
            table.add_row(_shape(other), f"{other.gpus}", "–", "–", "–", "–", other.why, style="dim")
        else:
            table.add_row(*_figures(other))
    return table


def _figures(on: OnShape) -> tuple[str, ...]:
    largest = _longest_first(on)[:3]
    return (
        _shape(on),
        f"{on.gpus}",
        _ms(on.iteration_s),
        figures(on.tokens_per_s),
        figures(on.tokens_per_s_per_gpu),
        percent(on.kv_share) + (" (too much)" if on.kv_share > 1 else ""),
        ", ".join(f"{part.name} {percent(part.seconds / on.iteration_s)}" for part in largest),
    )


def _longest_first(on: OnShape) -> list[Part]:
    return sorted(on.parts, key=lambda part: -part.seconds)


def _batch(e: Explained) -> str:
    i, parts = e.iteration, []
    if i.decoding:
        parts.append(
            f"{i.decoding:,} {'sequence' if i.decoding == 1 else 'sequences'} at {i.context_tokens:,} tokens"
        )
    if i.prefill_tokens:
        parts.append(f"a prompt of {i.prefill_tokens:,} tokens")
    flight = f" (one of {e.group.pp} batches in flight)" if e.group.pp > 1 else ""
    return " and ".join(parts) + flight


def _shape(on: OnShape | NotOnShape) -> str:
    return f"TP={on.tp} PP={on.pp}"


def _ms(duration_s: float) -> str:
    return f"{figures(duration_s * 1e3)} ms" if duration_s < 1 else seconds(duration_s)


def _bar(share: float) -> str:
    """Bar in eighths of a character, so that small terms show too."""
    eighths = max(1, round(share * BAR * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _document(e: Explained) -> dict[str, Any]:
    return {
        "stage": e.stage,
        "model": e.model,
        "gpu": e.gpu,
        "pool": e.group.pool,
        "count": e.group.count,
        "batch": {
            "decoding": e.iteration.decoding,
            "context_tokens": e.iteration.context_tokens,
            "prefill_tokens": e.iteration.prefill_tokens,
            "in_flight": e.group.pp,
        },
        "here": _on_shape(e.here),
        "others": [_on_shape(other) for other in e.others],
    }


def _on_shape(on: OnShape | NotOnShape) -> dict[str, Any]:
    shape: dict[str, Any] = {"tp": on.tp, "pp": on.pp, "gpus": on.gpus}
    if isinstance(on, NotOnShape):
        return shape | {"why_not": on.why}
    return shape | {
        "iteration_s": on.iteration_s,
        "tokens_per_s": on.tokens_per_s,
        "tokens_per_s_per_gpu": on.tokens_per_s_per_gpu,
        "kv_share": on.kv_share,
        "parts": [
            {"term": part.name, "seconds": part.seconds, "share": part.seconds / on.iteration_s}
            for part in on.parts
        ],
    }
