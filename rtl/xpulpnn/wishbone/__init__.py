"""Wishbone ports of core and cluster."""
