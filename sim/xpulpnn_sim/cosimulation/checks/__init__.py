"""Checks that compare what a compiled model does with golden models, by part of the design."""
