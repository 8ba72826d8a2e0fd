"""Verilated models, trace streaming and checking."""
