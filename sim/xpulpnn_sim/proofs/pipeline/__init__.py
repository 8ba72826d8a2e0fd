"""Proofs of properties of the pipeline in every cycle."""
