"""Policies of models that answer in one pass: which model takes which batch under which load, on how many workers,
and which of them share a GPU. Of the planner it may import `sensitivity`, `over_time`, `plan`, `replay`, `problem`,
`spec`, `infeasible`, `baselines`, `account`, `gears`, `refinement`, `pool`, `search`, `stability`, `deployment`,
`routing`, `allocation`, `tables`, `beside`.
"""
