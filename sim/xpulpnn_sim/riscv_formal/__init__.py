"""The checks of riscv-formal on the core: what surrounds it, and how they are run."""
