"""A simulator of LLM serving: hardware, architectures, calibrations and their fit, iteration time, replica, fleet,
cascade.
"""
