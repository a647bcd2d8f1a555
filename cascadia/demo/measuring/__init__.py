"""The demo's questions sent at their times, and what came of them: right answers, engine seconds, and how far from
a coin to an oracle.
"""
