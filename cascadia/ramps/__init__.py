"""Ramps on ONNX models: where they may stand, their training on the frozen model, and passes that exit at them.
What is decided about exits is `cascadia.exits`'s.
"""
