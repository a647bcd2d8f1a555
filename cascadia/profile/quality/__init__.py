"""Asks every stage every prompt, has a judge score the answers, and writes the quality table that a plan needs; a
run that was cut off goes on where it ended.
"""
