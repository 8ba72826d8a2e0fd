"""Coverage of random programs: crosses of instructions, hazards, waits and interrupts, and lines and bits."""
