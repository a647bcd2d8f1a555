"""Questions whose answers can be checked without asking anybody, and the conversation that each is sent in."""
