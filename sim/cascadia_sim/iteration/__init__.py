"""Time of one iteration of an engine, and memory that a replica needs: roofline terms, parallelism, experts,
scheduling. Of the simulator it may import `calibration`, `models`, `hardware`, `errors`.
"""
