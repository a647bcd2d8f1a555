"""Checks of an answer against a reference, none of which asks a model.

exact        the answer is the reference, but for case, spacing, and quotes or stops around it; of a list of
             references, one is enough
regex        the reference, a regular expression of Python's `re`, is found in the answer
json-schema  the answer is JSON, perhaps in a code fence, that the reference, a JSON schema, admits

What a reasoning model thinks in front of its answer, up to `</think>`, is no part of the answer.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

from cascadia_judge.errors import BadVerdict

if TYPE_CHECKING:
    from referencing import Registry

Check = Literal["exact", "regex", "json-schema"]
CHECKS: tuple[Check, ...] = get_args(Check)

_THOUGHT = re.compile(r"\A\s*(?:<think>)?.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A```[\w-]*\n(.*)\n```\Z", re.DOTALL)
_AROUND = " \t\n.,;:!?\"'`*“”‘’"


def is_right(check: Check, reference: object, answer: str) -> bool:
    """Tells whether `answer` meets a `reference` that `refuse_reference` did not refuse."""
    said = _THOUGHT.sub("", answer).strip()
    if check == "exact":
        accepted = reference if isinstance(reference, list) else [reference]
        return bare(said) in {bare(str(one)) for one in accepted}
    if check == "regex":
        return re.search(str(reference), said) is not None
    return _admits(reference, said)


def refuse_reference(check: Check, reference: object, where: str) -> None:
    """Raises `BadVerdict`, naming `where`, for a reference that no answer can be compared with."""
    if check == "exact":
        accepted = reference if isinstance(reference, list) else [reference]
        if not accepted or not all(isinstance(one, str | int | float) for one in accepted):
            raise BadVerdict(where, "the reference is no text", "write the right answer, or a list of them")
        if not all(bare(str(one)) for one in accepted):
            raise BadVerdict(where, "the reference is empty", "write the right answer")
    elif check == "regex":
        if not isinstance(reference, str) or not reference:
            raise BadVerdict(where, "the reference is no regular expression", "write one as text")
        try:
            re.compile(reference)
        except re.error as error:
            raise BadVerdict(
                where, f"the reference is no regular expression ({error})", "write one for Python's re"
            ) from None
    else:
        _refuse_schema(reference, where)


def bare(text: str) -> str:
    """Part of an answer that is compared: no case, no spacing, no quotes or stops around it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_AROUND)


def _refuse_schema(reference: object, where: str) -> None:
    from jsonschema import Draft202012Validator, SchemaError
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        schema = _schema(reference)
        Draft202012Validator.check_schema(schema)
    except (SchemaError, json.JSONDecodeError) as error:
        said = error.message if isinstance(error, SchemaError) else str(error)
        raise BadVerdict(
            where, f"the reference is no JSON schema ({said[:120]})", "write one of draft 2020-12"
        ) from None
    resolver = _empty().resolver_with_root(DRAFT202012.create_resource(schema))
    try:
        for target in _references(schema):
            resolver.lookup(target)
        Draft202012Validator(schema, registry=_empty()).is_valid(None)
    except (Unresolvable, RecursionError):
        raise BadVerdict(
            where, "the JSON schema refers to what is not in it", "write out what it refers to"
        ) from None


def _references(schema: Any) -> Iterator[str]:
    """Targets of the schema's `$ref`s, at any depth."""
    if isinstance(schema, dict):
        yield from (str(schema[key]) for key in ("$ref", "$dynamicRef") if key in schema)
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _admits(reference: object, said: str) -> bool:
    from jsonschema import Draft202012Validator

    fenced = _FENCE.match(said)
    try:
        document = json.loads(fenced.group(1) if fenced else said)
    except (json.JSONDecodeError, RecursionError):
        return False
    return bool(Draft202012Validator(_schema(reference), registry=_empty()).is_valid(document))


def _empty() -> "Registry[Any]":
    """A registry that finds nothing: a schema's `$ref` is never fetched from elsewhere."""
    from referencing import Registry

    return Registry()


def _schema(reference: object) -> Any:
    """A schema may be written as an object or, where a file has only text, as the JSON of one."""
    return json.loads(reference) if isinstance(reference, str) else reference
