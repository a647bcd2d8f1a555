"""Account that a plan gives of itself: replicas and predictions written down, the calibrations they rest on, and
what those calibrations' errors do to latency. Of the planner it may import `gears`, `refinement`, `search`,
`stability`, `deployment`, `routing`, `allocation`, `tables`.
"""
