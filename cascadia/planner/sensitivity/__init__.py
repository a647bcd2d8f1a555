"""Sensitivity of a plan: other bars, other rates, other systems, and what latency costs. Of the planner it may
import `plan`, `replay`, `problem`, `spec`, `infeasible`, `baselines`, `account`, `gears`, `refinement`,
`search`, `stability`, `deployment`, `routing`, `allocation`, `tables`.
"""
