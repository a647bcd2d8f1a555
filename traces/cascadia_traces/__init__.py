"""Workload traces: readers, generators, statistics."""
