"""Files that are read or written whole: strict YAML with its errors told by field, text, `plan.json`, policies,
certificates of exits, and writing that is done in full or not at all.
"""
