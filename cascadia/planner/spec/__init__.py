"""`cascade.yaml` as pydantic models: stages, pools, GPUs of one's own, bounds and goals, and what command-line
options override in it. Of the planner it may import `infeasible`, `baselines`, `account`, `gears`, `refinement`,
`pool`, `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
