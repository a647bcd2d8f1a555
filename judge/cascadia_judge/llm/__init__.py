"""An LLM as judge: its prompt, how its verdict is read, and what it costs. Of the judge package it may import
`encoder`, `errors`.
"""
