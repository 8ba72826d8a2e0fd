"""Proofs of units: gate graphs, polynomials, SAT and exhaustive simulation."""
