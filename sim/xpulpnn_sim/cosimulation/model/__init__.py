"""Designs compiled to native models, with their surroundings."""
