"""Watches the traffic, decides whether another plan pays, and moves there replica by replica."""
