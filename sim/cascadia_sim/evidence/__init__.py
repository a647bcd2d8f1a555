"""Evidence that simulated times rest on: how near the measurements are, how far off they may be, and the
support matrix. Of the simulator it may import `engine`, `iteration`, `calibration`, `models`, `hardware`,
`errors`.
"""
