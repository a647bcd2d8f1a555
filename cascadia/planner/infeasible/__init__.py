"""Explanation of a refusal where no plan meets the bounds: which bound binds, and the nearest value that would do. Of
the planner it may import `baselines`, `account`, `gears`, `refinement`, `pool`, `search`, `stability`, `deployment`,
`routing`, `allocation`, `tables`, `beside`.
"""
