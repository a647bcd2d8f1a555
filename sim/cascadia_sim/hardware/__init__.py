"""GPUs: the catalogue of data sheets, and GPUs of one's own; the cores that this process may keep busy. Of the
simulator it may import `errors`.
"""
