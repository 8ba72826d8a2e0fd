"""The gather of im2col: receptive fields of output pixels become rows of a buffer."""
