"""GPUs given to replicas: integer programs that HiGHS solves, and the paper's one-hot form for comparison. Of the
planner it may import `tables`, `beside`.
"""
