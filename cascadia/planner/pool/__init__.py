"""Pools under a budget: what of them can be rented at all, the price of the cheapest nodes that hold the models, the
largest rate that the money carries, and Kairos' choice for comparison. Of the planner it may import `search`,
`stability`, `deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
