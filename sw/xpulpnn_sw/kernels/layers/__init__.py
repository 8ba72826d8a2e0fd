"""Kernels by the layer they compute."""
