"""`cascadia trace`: statistics, plots and generation of workload traces."""
