"""Defences against answers that would talk a judge round: their text normalised before it is read, and null
answers to train heads against. Of the judge package it may import `encoder`, `errors`.
"""
