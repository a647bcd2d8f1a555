"""Latency of each shape that fits a stage's GPUs, under each share of the stage's load, and the requests a
second that it sustains; kept on disk by a digest of all that decides it. It imports no other room of the
planner.
"""
