"""Layers that kernels compute, their precisions, and the texts that describe both."""
