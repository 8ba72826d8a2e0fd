"""Layers that kernels compute, and the texts that name them."""
