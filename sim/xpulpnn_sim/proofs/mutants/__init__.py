"""Equality of a mutant and its unit: for all inputs, for those that reach the unit, or from reset on."""
