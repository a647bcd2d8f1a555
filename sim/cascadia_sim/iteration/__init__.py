"""How long one iteration of an engine takes, and how much memory a replica needs: roofline terms, parallelism,
experts, scheduling. Of the simulator it may import `calibration`, `models`, `hardware`, `errors`.
"""
