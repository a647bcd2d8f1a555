"""Child processes on this machine: started on free ports, watched until healthy, and stopped with all that they
started.
"""
