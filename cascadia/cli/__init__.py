"""The command line: one file or folder a command. Nothing but these rooms prints; all work is done elsewhere."""
