"""Layers that kernels compute, the texts that describe layers, windows and precisions."""
