"""Heads on vectors that expect how good an answer is: features, training, choice of model, and a file that loads
without executing anything. Of the judge package it may import `injection`, `llm`, `scores`, `encoder`, `errors`.
"""
