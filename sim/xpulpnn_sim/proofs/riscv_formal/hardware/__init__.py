"""Gates around the core that riscv-formal needs."""
