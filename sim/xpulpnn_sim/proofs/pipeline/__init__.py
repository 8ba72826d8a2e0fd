"""Proofs of what holds between instructions, for every cycle."""
