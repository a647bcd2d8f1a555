"""The embedded engine of models that answer in one pass: `cascadia engine serve`. A model is a folder; what is done
with one is `runner.py`'s, everything around it is told by its caller.
"""
