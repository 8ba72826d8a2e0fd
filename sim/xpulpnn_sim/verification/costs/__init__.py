"""Cycle costs that the documentation promises, and their measurement."""
