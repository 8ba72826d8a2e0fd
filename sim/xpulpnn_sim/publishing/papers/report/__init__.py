"""Measured tables in the terminal and as a page."""
