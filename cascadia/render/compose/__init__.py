"""A plan as a compose file: its engines, and on one node the router and the judge before them."""
