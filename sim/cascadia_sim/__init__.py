"""A simulator of LLM serving: hardware, architectures, iteration time, replica, fleet, cascade."""
