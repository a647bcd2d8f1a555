"""`cascadia thresholds`: a router's thresholds as a reviewed change."""
