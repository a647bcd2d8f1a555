"""Workers that serve one batch at a time: the compiled kernel, and what it made of each request. Of the simulator it
may import `engine`, `iteration`, `calibration`, `models`, `hardware`, `errors`.
"""
