"""riscv-formal on the cores, with cutpoints and seeded faults."""
