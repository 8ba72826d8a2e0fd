"""Designs that go wrong on request, to see whether checks find it."""
