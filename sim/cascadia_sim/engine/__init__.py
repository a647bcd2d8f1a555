"""Replicas that serve requests by continuous batching: the compiled kernel, fleets with dispatch, and what a client
sees. Of the simulator it may import `iteration`, `calibration`, `models`, `hardware`, `errors`.
"""
