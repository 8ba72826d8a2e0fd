"""Mutants of the core: how many of them programs in lock step with the simulator find."""
