"""Connections to engines: opened, pooled, read and given back. It imports no other room of the router."""
