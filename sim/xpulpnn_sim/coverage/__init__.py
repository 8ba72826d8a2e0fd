"""What random programs have reached: crosses of instructions, hazards, waits and interrupts, and lines and bits."""
