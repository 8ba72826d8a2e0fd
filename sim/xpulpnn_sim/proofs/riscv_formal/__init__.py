"""Checks of the cores by riscv-formal, with cutpoints, and with faults to test the checks."""
