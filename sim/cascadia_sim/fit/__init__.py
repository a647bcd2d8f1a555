"""Fit of calibrations to measurements: the bundled ones to public data, and a user's own to a profile of an
engine. Of the simulator it may import `engine`, `iteration`, `calibration`, `models`, `hardware`, `errors`.
"""
