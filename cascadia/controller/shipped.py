"""Defaults of `cascadia controller`, which its published days were measured with."""

WINDOW_S = 10.0
"""Of traffic that is looked at together."""
LEAST_ARRIVALS = 10
"""Requests that usually come in a window in which arrivals are counted."""
LEAST_EVALUATIONS = 400
"""Since a change, that replace the scores of before."""
AT_ONCE = 32
"""Replicas that start or drain together, where neither GPUs nor capacity forbid it."""
SCALE_S = 5.0
"""Between two looks of the inner loop."""
