"""Kernels, functions and classifiers as programs that run on models, with a common base class."""
