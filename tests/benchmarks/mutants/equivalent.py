"""Mutants that do what the program does, each with the reason: no test can tell them apart."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equivalent:
    """`before` and `after` are the line that differs, without its indentation."""

    path: str
    before: str
    after: str
    why: str


EQUIVALENT: tuple[Equivalent, ...] = ()
