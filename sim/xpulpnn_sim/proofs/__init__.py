"""Formal proofs: an engine, and proofs of units, emitter, instructions, pipeline and cluster."""
