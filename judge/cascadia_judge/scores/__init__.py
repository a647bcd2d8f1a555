"""Scores without a model of their own: certainty, agreement, verifiers, and the calibration of any score. Of the
judge package it may import `encoder`, `errors`.
"""
