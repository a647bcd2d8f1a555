"""Plans around the plan that was found, for its report: other bars, other rates, other systems, and what latency
costs. Of the planner it may import `over_time`, `plan`, `replay`, `problem`, `spec`, `infeasible`, `baselines`,
`account`, `gears`, `refinement`, `pool`, `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`,
`beside`.
"""
