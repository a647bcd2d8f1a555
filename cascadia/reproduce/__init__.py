"""The paper's evaluation, the comparison and the changing day again, on public data that lies under `CASCADIA_DATA`. It
may import everything but `cli` and `testing`.
"""
