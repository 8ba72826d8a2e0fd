"""Layers other than convolution and matrix product, with the text that names them."""
