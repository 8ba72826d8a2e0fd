"""Length of the part of a run whose switching is counted."""

WINDOW_CYCLES = 4096  # Clock cycles of a workload whose switching is counted, unless told otherwise
