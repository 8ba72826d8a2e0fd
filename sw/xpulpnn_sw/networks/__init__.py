"""Networks of integer layers, computed one layer after the other by the kernels."""
