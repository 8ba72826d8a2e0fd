"""Faults that are injected into designs, to test that checks find them."""
