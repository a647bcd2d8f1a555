"""Traces, quality tables and simulated requests as pandas DataFrames, for notebooks and scripts: `cascadia.read_trace`,
`cascadia.read_quality`, `cascadia.simulate`. They read and refuse what planning does, in the same words. It may import
`planner`, `files`, `domain` and the trace package; only who asks for it imports pandas.
"""
