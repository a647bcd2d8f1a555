"""Days of simulated traffic that changes, and ways to meet it: the controller, plans that stay, oracles."""
