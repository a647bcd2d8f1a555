"""A routing together with its replicas: the shapes it may use, swaps between them, its simulation on the trace, and
what is measured there. Of the planner it may import `routing`, `allocation`, `tables`, `beside`.
"""
