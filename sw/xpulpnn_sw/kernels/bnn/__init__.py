"""The binarised vehicle classifier: a neural network whose weights and activations are +1 or -1."""
