"""The embedding judge behind HTTP: `cascadia judge serve`. Its early verdicts are here too, with the training of their
ramp (`cascadia judge train-exits`).
"""
