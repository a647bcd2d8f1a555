"""Choice of the replica of a stage that gets a request: in turn, by what each has in hand, by whose prefix cache may
have its prompt, or, on unequal GPUs, by learnt times and answer lengths, request by request or several at once. `turns`
is the rule by which a mixture chooses its routing. The router and the simulator use the same. Pure: no clock, no
network; chance is an argument.
"""
