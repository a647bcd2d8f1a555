"""Systems that answer a load that swings, on the same GPUs: our ladder, single settings, and the gears of others. Of
the planner it may import `plan`, `replay`, `problem`, `spec`, `infeasible`, `baselines`, `account`, `gears`,
`refinement`, `pool`, `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`.
"""
