"""Exploration of configurations: area, timing, energy and cycles from open tools, beside each other."""
