"""Connections to engines: opened, pooled, written, read within deadlines, and given back. It imports no other
room of the router.
"""
