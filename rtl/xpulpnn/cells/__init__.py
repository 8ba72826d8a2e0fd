"""Modules that a technology may replace by cells of its own: synchronisers, clock gates and memories."""
