"""Systems that answer a load that swings, on the same GPUs: our ladder, single settings, and the gears of others.

It may import everything else of the planner. Nothing imports it but the command line and benchmarks.
"""
