"""Lengths of requests: as a file counts them, counted from its texts, or a stated length where it has neither."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.imports.fields import number, text_of
from cascadia.imports.records import Record, Records
from cascadia.imports.tokens import Counter
from cascadia_traces.checks import LONGEST_TOKENS, Ints

TEXTS = {"input_tokens": "prompt", "output_tokens": "answer"}


def needed(answer_tokens: int | None) -> list[tuple[str, ...]]:
    """Columns without which lengths are not known, each with its stand-in."""
    known: list[tuple[str, ...]] = [("input_tokens", "prompt"), ("output_tokens", "answer")]
    return known if answer_tokens is None else known[:1]


def lengths(
    records: Sequence[Record],
    column: str,
    counter: Counter,
    note: Callable[[str], None],
    unknown: int | None = None,
) -> Ints:
    """Tokens (n) of `column`: 0 where the program counted none, which is a request that failed, and where a row has
    neither count nor text; `unknown` is what such a row has instead. Raises `BadInput` for a count that is no whole
    number, and where no row has any."""
    given = [record.get(column) for record in records]
    tokens = np.array([math.nan if value is None else number(value) for value in given])
    bad = [at for at, value in enumerate(given) if value is not None and not _is_count(tokens[at])]
    if bad:
        raise BadInput(
            records[bad[0]].where,
            f"{column} is {given[bad[0]]!r}",
            f"write a whole number of tokens, at most {LONGEST_TOKENS:,}",
        )
    absent = [int(at) for at in np.flatnonzero(np.isnan(tokens))]
    texts = [text_of(records[at].get(TEXTS[column])) for at in absent]
    counted = [at for at, text in zip(absent, texts, strict=True) if text is not None]
    if counted:
        tokens[counted] = counter.tokens_of([text for text in texts if text is not None])
        note(f"{column} of {len(counted):,} rows counted with {counter.name}")
    rest = np.isnan(tokens)
    if rest.any() and unknown is not None:
        note(
            f"{column} of {int(rest.sum()):,} rows taken to be {unknown}: there is neither a count nor a text"
        )
        tokens[rest] = unknown
    elif rest.all():
        raise BadInput(records[0].where, f"has neither {column} nor a text to count", "add one to each row")
    return np.asarray(np.nan_to_num(tokens), dtype=np.int64)


def has_lengths(record: Record, answer_tokens: int | None) -> bool:
    """Tells whether the tokens in and out are counted, can be, or are stated by `answer_tokens`."""
    columns = TEXTS if answer_tokens is None else ["input_tokens"]
    return all(
        record.get(column) is not None or text_of(record.get(TEXTS[column])) is not None for column in columns
    )


def without_failed(found: Records, note: Callable[[str], None]) -> None:
    if found.failed:
        total = found.failed + len(found.records)
        note(f"left out {found.failed:,} of {total:,} requests, which failed")


def _is_count(value: float) -> bool:
    return 0 <= value <= LONGEST_TOKENS and value == int(value)
