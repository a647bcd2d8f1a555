"""Files that are read or written whole: strict YAML with its errors told by field, text, `plan.json`, and writing
that is done in full or not at all.
"""
