"""Choice of the replica of a stage that gets a request, in turn, by what each has in hand, or by whose prefix
cache may have its prompt; used by the router and the simulator alike. Pure: no clock, no network; chance is an
argument.
"""
