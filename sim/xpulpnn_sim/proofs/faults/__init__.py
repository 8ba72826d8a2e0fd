"""Faults that are injected into designs, to test the checks."""
