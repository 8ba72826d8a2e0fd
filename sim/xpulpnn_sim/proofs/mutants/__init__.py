"""Equivalence of a unit and its mutants for all inputs, for inputs that occur in the core, or from reset."""
