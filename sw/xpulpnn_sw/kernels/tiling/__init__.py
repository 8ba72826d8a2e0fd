"""Layers larger than the memory of a cluster, computed piece by piece."""
