"""The router: an OpenAI-compatible service in front of the stages of a cascade."""
