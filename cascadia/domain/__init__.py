"""Frozen values and errors. No I/O."""
