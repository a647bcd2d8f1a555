"""Examinations that may take long for a text that somebody else wrote: applying a schema or pattern.

Pure functions of a task, run by `program.py` in a process that may be killed. Schemas that were applied once
are kept compiled.
"""

import json
from collections.abc import Callable
from dataclasses import astuple
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cascadia.router.openai.logprobs import Unreadable, certainty_in
from cascadia_judge.injection.normalise import plain
from cascadia_judge.scores.checks import bare
from cascadia_judge.scores.verifiers import Verifier, VerifierKind

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

NODES_MAX = 5_000
"""Of a schema: objects, lists and values in it. Those that clients of structured outputs send have hundreds at most."""
SCHEMA_BYTES_MAX = 256 * 1024
COMPARED_CHARACTERS = 8192
KEPT = 256
"""Schemas, and as many verifiers, that stay compiled."""


class SchemaTask(Struct, tag="schema"):
    """Task: does the JSON text `document` meet `schema`, also JSON? True, False, or None: it cannot be applied."""

    schema: bytes
    document: str


class VerifierTask(Struct, tag="verifier"):
    """Task: do all `texts` pass the verifier? `reference` is the JSON of a pattern or schema."""

    kind: VerifierKind
    reference: bytes
    absent: bool
    texts: list[str]


class SaidTask(Struct, tag="said"):
    """Task: what is compared of each of `texts`."""

    texts: list[str]
    extract: str | None


class CertaintyTask(Struct, tag="certainty"):
    """The fields of a `Certainty`, of the log-probabilities in `parts`."""

    parts: list[bytes]


Task = SchemaTask | VerifierTask | SaidTask | CertaintyTask


class Unfit(Exception):
    """The task cannot be done whatever time it is given; says why in a word."""


def examined(task: Task) -> Any:
    """Raises `Unfit`."""
    match task:
        case SchemaTask():
            return _meets(task)
        case VerifierTask():
            verifier = _verifier(task.kind, task.reference, task.absent)
            return all(verifier.passes(text) for text in task.texts)
        case CertaintyTask():
            return _certainty(task.parts)
    return [said(text, task.extract) for text in task.texts]


def _certainty(parts: list[bytes]) -> tuple[Any, ...]:
    try:
        return astuple(certainty_in(parts))
    except Unreadable as error:
        raise Unfit(error.kind) from None


def _meets(task: SchemaTask) -> bool | None:
    from referencing.exceptions import Unresolvable

    validator = _validator(task.schema)
    if validator is None:
        return None
    try:
        return bool(validator.is_valid(json.loads(task.document)))
    except ValueError:
        return False
    except Unresolvable:
        # A reference to elsewhere is never fetched: what it asks is between client and engine.
        return None


@lru_cache(maxsize=KEPT)
def _validator(schema: bytes) -> "Validator | None":
    """Validator of `schema`; None for what is no schema: that is between client and engine. Raises `Unfit` for
    one too large.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry

    if len(schema) > SCHEMA_BYTES_MAX:
        raise Unfit("large")
    document = json.loads(schema)
    if _nodes(document) > NODES_MAX:
        raise Unfit("large")
    try:
        Draft202012Validator.check_schema(document)
    except SchemaError:
        return None
    # A registry of its own: nothing that a client writes may have a schema fetched from anywhere.
    found: Validator = _linear()(document, registry=Registry())
    return found


@lru_cache(maxsize=1)
def _linear() -> Callable[..., Any]:
    """Draft 2020-12 with patterns in time linear in the text, but for those that need to look around or back."""
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Any:
        if isinstance(instance, str) and not _search(wanted)(instance):
            yield ValidationError("does not match the pattern")

    def pattern_properties(validator: Any, wanted: dict[str, Any], instance: Any, _: Any) -> Any:
        if not isinstance(instance, dict):
            return
        for expression, schema in wanted.items():
            for name, value in instance.items():
                if _search(expression)(name):
                    yield from validator.descend(value, schema, path=name, schema_path=expression)

    keywords = {"pattern": pattern, "patternProperties": pattern_properties}
    found: Callable[..., Any] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return found


@lru_cache(maxsize=KEPT)
def _search(pattern: str) -> Callable[[str], object]:
    import re

    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        found: Callable[[str], object] = re2.compile(pattern, options=options).search
    except re2.error:
        try:
            found = re.compile(pattern).search
        except re.error:
            raise Unfit("pattern") from None
    return found


def _nodes(document: Any) -> int:
    """Counted without recursion, and no further than one too many."""
    count, open_ = 0, [document]
    while open_ and count <= NODES_MAX:
        node = open_.pop()
        count += 1
        if isinstance(node, dict):
            open_ += node.values()
        elif isinstance(node, list):
            open_ += node
    return count


@lru_cache(maxsize=KEPT)
def _verifier(kind: VerifierKind, reference: bytes, absent: bool) -> Verifier:
    return Verifier(kind, json.loads(reference), absent)


@lru_cache(maxsize=KEPT)
def _extract(pattern: str) -> Any:
    import re

    return re.compile(pattern)


def said(text: str, extract: str | None = None) -> str:
    """Part of an answer that is compared: as it looks, or what the last match of `extract` found; may be empty."""
    seen = plain(text, COMPARED_CHARACTERS)
    if extract is not None:
        found = list(_extract(extract).finditer(seen))
        seen = found[-1].group(found[-1].lastindex or 0) if found else ""
    return bare(seen)
