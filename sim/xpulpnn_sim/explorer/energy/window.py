"""How much of a run is looked at."""

WINDOW_CYCLES = 4096
"""Clock cycles of a workload whose switching is counted, unless told otherwise."""
