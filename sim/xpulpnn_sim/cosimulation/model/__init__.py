"""Designs compiled to native models, with the memory and interrupt lines around them."""
