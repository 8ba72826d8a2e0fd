"""Networks as C programs: layers as calls of the kernel library, memory by lifetime, weights as arrays."""
