"""Texts as a judge reads them: written plainly, and answers that say nothing. Of the judge package it may import
`encoder`, `errors`.
"""
