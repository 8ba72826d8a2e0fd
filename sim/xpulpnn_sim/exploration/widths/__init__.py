"""Search for the bit widths of a network's layers; the reference gives accuracies, the design gives cycles."""
