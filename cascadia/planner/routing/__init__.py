"""Thresholds as routings: what share of requests and which quality each gives, which of them none beats, and a lower
bound on quality that holds for all at once. Of the planner it may import `allocation`, `tables`, `beside`.
"""
