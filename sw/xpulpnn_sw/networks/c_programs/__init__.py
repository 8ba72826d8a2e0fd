"""Generator of C programs from networks: layers are calls of kernels in a library, and weights are arrays."""
