"""Instruction caches of the cluster: one for each core, and one that all share."""
