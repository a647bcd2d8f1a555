"""Architectures: what a `config.json` says of a model, layer by layer, with its quantisation; what is not
understood is refused. Of the simulator it may import `hardware`, `errors`.
"""
