"""Layers larger than the memory of a cluster, computed tile by tile."""
