"""Formal models of instructions from the instruction table, and proofs that the core behaves like them."""
