"""`cascadia profile`: latency and quality of one's own engines."""
