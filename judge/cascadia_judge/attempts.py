"""What an answer says to its judge, and the answer without it.

An answer is graded as it stands *and* without what looks addressed to a judge; the lower grade counts
(`readings`). So what is taken for an attempt, rightly or not, can lower a grade and never raise it: the
lists below need not be free of false alarms, and what they miss is what remains to be measured. Nothing
here follows anything.

A router looks at every answer that it holds, so most of the code is about not looking twice: `docs/models/judge.md`
says what it takes.
"""

import re
from bisect import bisect_left
from collections import defaultdict

from cascadia_judge.attempts_codes import coded, encoded, in_another_script, spelled_apart
from cascadia_judge.attempts_forged import forged_at
from cascadia_judge.attempts_rules import RULES
from cascadia_judge.attempts_stems import ascii_of, has_long_word, stems_in
from cascadia_judge.plain import plain, skeleton, stays_in_place

_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])(?=.)|\n+")


def readings(answer: str) -> tuple[str, ...]:
    """The texts to be graded, of which the lowest grade counts: the answer as it looks, and without
    attempts where it has any."""
    seen = plain(answer)
    kept = without_attempts(seen)
    return (seen,) if kept == seen else (seen, kept)


def without_attempts(seen: str) -> str:
    """`seen`, as `plain` returns it, less the sentences that speak to a judge, and less all that follows a
    forged delimiter."""
    simple = skeleton(seen)
    forged = forged_at(simple if len(simple) == len(seen) else _lower_in_place(seen))
    body = seen if forged is None else seen[:forged]
    suspects = _suspects(body, simple if forged is None else skeleton(body))
    if suspects == [] and forged is None:
        # Nothing in the whole of it, so nothing in its parts.
        return body
    if suspects and not stays_in_place(body):
        suspects = None
    # What the whole of it says in no other script or code, no part does.
    speaks = speaks_to_a_judge if suspects is None else _is_spoken_to
    kept, start = [], 0
    for end in (*(between.end() for between in _BETWEEN.finditer(body)), len(body)):
        segment = body[start:end]
        looked_at = suspects is None or bisect_left(suspects, start) < bisect_left(suspects, end)
        if not (looked_at and speaks(segment)):
            kept.append(segment)
        start = end
    return "".join(kept).strip()


def speaks_to_a_judge(segment: str) -> bool:
    """Also where it is written backwards, in a simple code, with spaced letters or with figures for letters."""
    return _suspects(segment, skeleton(segment)) != []


def _is_spoken_to(segment: str) -> bool:
    return is_addressed(skeleton(segment))


def is_addressed(simple: str) -> bool:
    """Whether some rule matches `simple`, a skeleton."""
    return bool(_places(simple, ascii_of(simple)))


def _suspects(text: str, simple: str) -> list[int] | None:
    """Where in `simple`, the skeleton of `text`, rules match; None where it speaks to a judge otherwise, anywhere."""
    letters = ascii_of(simple)
    if not text.isascii() and in_another_script(text):
        return None
    if encoded(text, letters if text.isascii() else ascii_of(text)):
        return None
    if spelled_apart(simple, letters) or coded(simple, letters):
        return None
    return _places(simple, letters)


def _places(simple: str, letters: bytes) -> list[int]:
    """Of stems by which a rule matches, rising."""
    by_rule: dict[int, list[int]] = defaultdict(list)
    for at, rules in stems_in(letters):
        for rule in rules:
            by_rule[rule].append(at)
    whole = bool(by_rule) and has_long_word(letters)
    return sorted(
        {at for rule, places in by_rule.items() for at in RULES[rule].found(simple, places, whole=whole)}
    )


def _lower_in_place(seen: str) -> str:
    lower = seen.lower()
    if len(lower) == len(seen) and "Σ" not in seen:
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in seen)
