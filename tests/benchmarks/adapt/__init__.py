"""Days of traffic, fleets that exist in the simulator only, and ways to run them."""
