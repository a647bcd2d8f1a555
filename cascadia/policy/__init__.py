"""Policies of one-pass models, which model takes how many that wait: the decision process of RAMSIS section 4, its
solution, and the look-up by load. Pure: no clock, no network; times and loads are arguments.
`cascadia.planner.policies` chooses workers by it.
"""
