"""Pools under a budget: what of them can be rented at all, and the price of the cheapest nodes that hold the models. Of
the planner it may import `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`.
"""
