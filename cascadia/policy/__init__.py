"""Which model takes a waiting batch of one-pass models, and how many of it: the decision process of RAMSIS section 4,
its solution, and the look-up by load. Pure: no clock, no network; times and loads are arguments.
"""
