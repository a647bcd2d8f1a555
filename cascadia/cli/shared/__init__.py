"""Parts that commands share: options that several have, output as text or JSON, progress, and errors as one
line with an exit code.
"""
