"""Plan as it is written down: its replicas and predictions, the calibrations they rest on, and what those
calibrations' errors do to latency. Of the planner it may import `gears`, `refinement`, `pool`, `search`, `stability`,
`deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
