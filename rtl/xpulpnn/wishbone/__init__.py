"""Wishbone ports of the core."""
