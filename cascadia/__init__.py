"""Cascadia: plan, deploy and serve cascades of large language models."""

__version__ = "0.1.0"
