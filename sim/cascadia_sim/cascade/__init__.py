"""A whole cascade on a trace: stages, a judge that they share, and plans that change under way. Of the simulator it
may import `engine`, `iteration`, `calibration`, `models`, `hardware`, `errors`.
"""
