"""Layers that kernels compute, their texts, windows and precisions."""
