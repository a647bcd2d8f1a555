"""Everything outbound: serving engines, judges elsewhere, clusters."""
