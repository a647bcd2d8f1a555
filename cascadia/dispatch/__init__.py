"""Choice of the replica of a stage that gets a request. Pure: no clock, no network; chance is an argument."""
