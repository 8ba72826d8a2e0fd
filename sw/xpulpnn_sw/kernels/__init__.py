"""PULP-NN kernels as generators of instruction streams."""
