"""Hardware around the core that riscv-formal needs."""
