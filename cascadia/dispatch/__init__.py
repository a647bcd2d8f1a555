"""Which replica of a stage gets a request. Pure: no clock, no network; chance is an argument."""
