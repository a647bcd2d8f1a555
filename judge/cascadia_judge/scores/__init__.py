"""Scores that need no model of their own (an engine's certainty, checks against a reference), how well any
score tells right from wrong, and its calibration to quality. Of the judge package it may import `encoder`,
`errors`.
"""
