"""A plan that is written already: played on another trace, or explained iteration by iteration. Of the planner it may
import `problem`, `spec`, `infeasible`, `baselines`, `account`, `gears`, `refinement`, `pool`, `search`, `stability`,
`deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
