"""Early exits inside a model, by its layers or by the length of its thinking: which settings are safe, which ramps pay,
when to withdraw. Pure: no clock, no network; chance is an argument. Readings of ramps and the model's own answers come
in, thresholds go out (Apparate section 3).
"""
