"""Made-up traces: arrivals, rates and lengths drawn from a seed. Of the trace package it may import `formats`,
`trace`, `checks`, `errors`.
"""
