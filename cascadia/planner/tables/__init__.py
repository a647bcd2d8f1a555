"""Latency tables: the shapes that fit a stage's GPUs, how many requests a second each sustains, and how long it
takes under each share of the load; kept on disk by a digest of all that decides it. It imports no other room of
the planner.
"""
