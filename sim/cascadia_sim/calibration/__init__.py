"""Constants fitted to measurements, and which of them stands for a GPU, an engine and a precision. Of the simulator
it may import `models`, `hardware`, `errors`.
"""
