"""Work that goes on in another process while this one plans: Python computes on one core only, whatever its threads.
It imports no other room of the planner.
"""
