"""Profiles for tests: made up, in the shape of RAMSIS figure 3."""

from cascadia.policy.problem import ModelProfile

NAMED = (
    ("tiny", 60.0, 10),
    ("small", 70.0, 18),
    ("medium", 76.0, 32),
    ("large", 80.0, 60),
    ("huge", 82.0, 95),
)


def profiles(batches: int = 16) -> tuple[ModelProfile, ...]:
    """Each request of a batch adds nine tenths of what one alone takes."""
    return tuple(
        ModelProfile(name, accuracy, tuple(ms * (0.1 + 0.9 * size) / 1000 for size in range(1, batches + 1)))
        for name, accuracy, ms in NAMED
    )
