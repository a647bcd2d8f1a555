"""The controller of a fleet: watches its traffic, decides whether another plan pays, and moves there replica by
replica.
"""
