"""Hardware around the core for riscv-formal."""
