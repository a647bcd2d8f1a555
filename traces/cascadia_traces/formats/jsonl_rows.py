"""Rows of our own JSON Lines: one flat object a request, with the columns' names as keys."""

from collections.abc import Callable, Iterator

from cascadia_traces.errors import BadInput
from cascadia_traces.formats.detect import find_columns
from cascadia_traces.formats.json_lines import numbers_of, read_objects, texts_of
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source


def read_jsonl(source: Source, layout: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows; which optional columns there are is told by the first object."""
    optional: set[str] | None = None
    for batch in read_objects(source, on_progress):
        if optional is None:
            first = batch.objects[0]
            find_columns(source, layout, list(first))
            optional = {"prompt_id", "session_id", "prefix_tokens", "hash_ids"} & set(first)
        try:
            arrival_s = [row["arrival_s"] for row in batch.objects]
            inputs = [row["input_tokens"] for row in batch.objects]
            outputs = [row["output_tokens"] for row in batch.objects]
        except KeyError as missing:
            key = missing.args[0]
            index = next(i for i, row in enumerate(batch.objects) if key not in row)
            where = f"{source.name}, line {batch.line[index]}"
            raise BadInput(where, f"no {key!r}", "write it in every object, like the first") from None
        texts = {
            key: texts_of(source, batch, key, [row.get(key) for row in batch.objects])
            for key in ("prompt_id", "session_id", "hash_ids")
            if key in optional
        }
        prefixes = [row.get("prefix_tokens", 0) for row in batch.objects]
        yield Rows(
            batch.line,
            numbers_of(source, batch, "arrival_s", arrival_s),
            numbers_of(source, batch, "input_tokens", inputs),
            output_tokens=numbers_of(source, batch, "output_tokens", outputs),
            prompt_id=texts.get("prompt_id"),
            session_id=texts.get("session_id"),
            prefix_tokens=numbers_of(source, batch, "prefix_tokens", prefixes)
            if "prefix_tokens" in optional
            else None,
            hash_ids=texts.get("hash_ids"),
        )
