"""Findings on what this machine has for planning and serving, and what it lacks, each with what to do. It may import
`planner`, `clients`, `files` and `domain`; it changes nothing and asks no network beyond this machine.
"""
