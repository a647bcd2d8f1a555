"""Constants from measurements: bundled calibrations from public data, and profiles of a user's engine. Of the
simulator it may import `engine`, `iteration`, `calibration`, `models`, `hardware`, `errors`.
"""
