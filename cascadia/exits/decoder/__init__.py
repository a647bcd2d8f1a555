"""Reference of exits of single tokens (Apparate section 3.4): a Llama in numpy, small enough to read, and the way that
exited tokens owe the KV cache what their late layers would have written.
"""
