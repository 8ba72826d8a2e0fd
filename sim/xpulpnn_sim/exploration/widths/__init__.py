"""Bits for the layers of a network: accuracy by the reference, cycles measured on the design."""
