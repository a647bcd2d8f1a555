"""Made-up traces: arrivals, rates and lengths drawn from a seed. Of the trace package it may import `formats`,
`trace`, `arrow`, `checks`, `errors`.
"""
