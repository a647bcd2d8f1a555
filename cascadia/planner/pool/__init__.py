"""Pools under a budget: what of them can be rented at all, and the cheapest deployment that holds the models."""
