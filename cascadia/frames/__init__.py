"""The public interface in Python, for notebooks and scripts: `cascadia.plan` and the `Plan` that it gives; traces,
quality tables and simulated requests as pandas DataFrames. They read and refuse what planning does, in the same words.
It may import `planner`, `files`, `domain` and the trace package; only who asks for it imports pandas.
"""
