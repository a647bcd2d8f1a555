"""`cascadia engine`: models that answer in one pass, made, measured and served."""
