"""Complete programs made of kernels."""
