"""Comparison under a load that swings (`cascadia compare --over-time`), on the same GPUs: the plan's gears (its
ladder) beside single settings and the gears of others. Of the planner it may import `plan`, `replay`, `problem`,
`spec`, `infeasible`, `baselines`, `account`, `gears`, `refinement`, `pool`, `search`, `stability`, `deployment`,
`routing`, `allocation`, `tables`, `beside`.
"""
