"""A probe in front of llama.cpp: answers pass through, each with a score of the engine's own hidden states."""
