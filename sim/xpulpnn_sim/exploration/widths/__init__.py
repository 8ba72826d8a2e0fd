"""Search for the bit widths of a network's layers: accuracy by the reference, cycles on the design."""
