"""Spend by key and stage: the bill of a plan's GPUs, shared out by what a router's log says that each key used. It may
import `files` and `domain`.
"""
