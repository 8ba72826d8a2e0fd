"""riscv-formal on the cores, with cutpoints and fault injection."""
