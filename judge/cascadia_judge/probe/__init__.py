"""A ramp on a model's own hidden states: what the model itself knew of its answer while it wrote it. It costs no call
and no layer, since the engine has them already. Of the judge package it may import `embedding`, `head`, `injection`,
`llm`, `scores`, `encoder`, `errors`.
"""
