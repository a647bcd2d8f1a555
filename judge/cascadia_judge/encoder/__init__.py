"""Texts as vectors: a sentence encoder, and a memory of its last vectors. Of the judge package it may import
`errors`.
"""
