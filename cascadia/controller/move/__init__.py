"""A move from the replicas that run to those that are wanted: the order of starts and stops within the GPUs
there are, carried out so that a move cut off can go on. Of the controller it may import `memory`, `shipped`.
"""
