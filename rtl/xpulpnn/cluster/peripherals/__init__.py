"""Peripherals that the cores share, and their bus."""
