"""Gears of a plan: for each level of load the routing that its replicas carry then, and when to change (CascadeServe
section 4). Of the planner it may import `refinement`, `pool`, `search`, `stability`, `deployment`, `routing`,
`allocation`, `tables`, `beside`.
"""
