"""Asks an engine for answers of exact lengths, in an order that makes the most of the time given, and writes a
calibration that a spec can name.
"""
