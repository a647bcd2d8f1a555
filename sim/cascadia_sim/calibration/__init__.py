"""Calibrations of engines on GPUs (constants fitted to measurements), and the choice of the one that stands for
a GPU, an engine and a precision. Of the simulator it may import `models`, `hardware`, `errors`.
"""
