"""A router's thresholds as a reviewed change: proposed with what they are expected to cost and to be worth, approved,
rolled back, each with a line in an audit file. It may import `router`, `planner`, `files` and `domain`.
"""
