"""Statistics of a trace (rates, lengths, burstiness, correlation) from one pass in memory that does not grow
with it. Of the trace package it may import `generate`, `formats`, `trace`, `arrow`, `checks`, `errors`.
"""
