"""Proofs: one engine, and what it proves of units, emitter, instructions, pipeline and cluster."""
