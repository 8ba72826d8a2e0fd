"""Kernels, functions and classifiers that run on models, behind one protocol."""
