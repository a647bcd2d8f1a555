"""Prefix caches: which blocks prompts share, and how many tokens of each prompt a replica finds. Of the simulator
it may import `cascade`, `evidence`, `fit`, `batch`, `engine`, `iteration`, `calibration`, `models`, `hardware`,
`errors`.
"""
