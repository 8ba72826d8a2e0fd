"""Equivalence of a unit and its mutants for all inputs, for inputs reachable in the core, or from reset."""
