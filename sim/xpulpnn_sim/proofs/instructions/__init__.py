"""Formal models of instructions from the instruction table, and proofs of the core against them."""
