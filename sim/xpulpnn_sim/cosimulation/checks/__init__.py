"""Checks of what a model does, block by block."""
