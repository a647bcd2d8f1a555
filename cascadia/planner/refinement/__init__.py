"""Refinement of the search's best candidates to the one that is deployed: neighbours, shares of unequal replicas,
whole nodes and parts of the cluster are tried by simulation, and the winner has a certificate. Of the planner it may
import `pool`, `search`, `stability`, `deployment`, `routing`, `allocation`, `tables`, `beside`.
"""
