"""Energy of workloads, from the switching of every net of the mapped netlist."""
