"""Deployments that others would choose on the same GPUs: one model alone, a coin, CascadeServe, a pre-router; and
`compare`. Of the planner it may import `account`, `gears`, `refinement`, `pool`, `search`, `stability`, `deployment`,
`routing`, `allocation`, `tables`, `beside`.
"""
