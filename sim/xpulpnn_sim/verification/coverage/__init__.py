"""Coverage of random programs: crosses of instructions with hazards, waits and interrupts; Verilog lines and bits."""
