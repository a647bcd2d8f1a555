"""Child processes on this machine: started on free ports, watched until healthy, and stopped with all that they
started. What our own small services share is here too: `http_server`, a service as a process, and `one_thread`, its
queue.
"""
