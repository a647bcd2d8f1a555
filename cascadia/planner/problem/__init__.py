"""Makes a `Problem` of a spec, a trace and a quality table: files read, rows joined, judges and scales checked,
calibrations and models looked up. Of the planner it may import `spec`, `infeasible`, `baselines`, `account`, `gears`,
`refinement`, `pool`, `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
