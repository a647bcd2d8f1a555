"""Trace files: which format one is in, read whole or in parts of bounded memory, and written. Of the trace package
it may import `trace`, `arrow`, `checks`, `errors`.
"""
