"""Kernels of layers that keep channels apart: depthwise convolution, pooling, addition, ReLU."""
