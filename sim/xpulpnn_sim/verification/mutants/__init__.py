"""Mutants of units and of the core."""
