"""Kubernetes objects of engines: the pods of a replica's ranks, their labels and volumes, and the workload and
Service of each group.
"""
