"""Work that a replica is asked to do and its calibration's measurements did not cover, in words.

Both ends count of tensor parallelism and of the models' sizes: all-reduces, and what an iteration costs beside the
model's work, are told apart by them. Of the others only the upper end does: fewer tokens, shorter contexts and
smaller batches than were measured come nearer to the fixed part of an iteration, which every measurement contains.
"""

from dataclasses import dataclass

from cascadia_sim.calibration.calibration import Validity

MARGIN = 1.01
"""A model's parameters count as inside up to this factor: sizes are told to three digits."""


@dataclass(frozen=True, slots=True)
class Use:
    """The largest of each: tokens and sequences of an iteration, tokens of a request's context."""

    tp: int
    parameters: int
    tokens: int
    batch: int
    context: int


def beyond(use: Use, valid: Validity) -> tuple[str, ...]:
    """One phrase for each range that `use` leaves; none of a range that was not kept, or of nothing measured."""
    if not valid.tokens[1]:
        return ()
    found = []
    if not valid.tp[0] <= use.tp <= valid.tp[1]:
        found.append(f"TP {use.tp}, {_measured(valid.tp)}")
    if valid.parameters is not None:
        least, most = valid.parameters
        if not least / MARGIN <= use.parameters <= most * MARGIN:
            sizes = f"{_billions(least)} to {_billions(most)}" if least < most else _billions(least)
            found.append(f"a model of {_billions(use.parameters)} parameters, measured: {sizes}")
    if use.tokens > valid.tokens[1]:
        found.append(f"iterations of {use.tokens:,} tokens, {_measured(valid.tokens)}")
    if valid.batch is not None and use.batch > valid.batch[1]:
        found.append(f"{use.batch:,} sequences at once, {_measured(valid.batch)}")
    if valid.context[1] and use.context > valid.context[1]:
        found.append(f"contexts of {use.context:,} tokens, {_measured(valid.context)}")
    return tuple(found)


def _measured(least_most: tuple[int, int]) -> str:
    least, most = least_most
    return f"measured: {least:,} to {most:,}" if least < most else f"measured: {most:,}"


def _billions(parameters: int) -> str:
    return f"{parameters / 1e9:.3g}B"
