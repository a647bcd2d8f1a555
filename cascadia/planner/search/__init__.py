"""The bi-level loop of the Cascadia paper (algorithm 1): for each routing the best allocation, and routings chosen by
what allocations cost. Of the planner it may import `stability`, `deployment`, `routing`, `allocation`, `tables`,
`beside`.
"""
