"""Compilers, C headers, the run-time library and linker scripts."""
