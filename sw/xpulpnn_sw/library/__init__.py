"""The kernels as a library for C programs."""
