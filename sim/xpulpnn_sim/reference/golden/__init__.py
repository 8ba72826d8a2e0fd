"""Golden models in numpy and Python of instructions, kernels and devices, independent of the hardware description."""
