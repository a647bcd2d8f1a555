"""Verdicts of a simulated run: how many were asked for on each answer, and what they read."""

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.domain.quality import Bools, Ints
from cascadia.planner.tables.loads import verdict_reads, verdicts_each
from cascadia_sim.cascade.parts import Verdicts


def asked_of(problem: Problem, verdicts: Verdicts) -> Ints:
    """Verdicts on each answer, those on its trials too."""
    count: Ints = verdicts_each(problem, _gated(problem, verdicts))[verdicts.stage, verdicts.requests]
    return count


def reads_of(problem: Problem, verdicts: Verdicts) -> Ints:
    """Tokens that the verdicts on each answer read: instructions, question and answer."""
    read: Ints = verdict_reads(problem, _gated(problem, verdicts))[verdicts.stage, verdicts.requests]
    return read


def _gated(problem: Problem, verdicts: Verdicts) -> Bools:
    """(S, n): at which stages a verdict of the run decided on each request."""
    found = np.zeros((len(problem.stages), len(problem.workload)), np.bool_)
    found[verdicts.stage, verdicts.requests] = verdicts.decides
    return found
