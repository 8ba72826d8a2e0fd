"""Equivalence of mutants and their unit: for all inputs, for inputs that reach the unit, or from reset."""
