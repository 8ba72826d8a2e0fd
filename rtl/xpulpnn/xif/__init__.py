"""Coprocessor for cores with the extension interface CV-X-IF."""
