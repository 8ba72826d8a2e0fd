"""Formal proofs of units, emitter, instructions, pipeline and cluster, and the engine that they share."""
