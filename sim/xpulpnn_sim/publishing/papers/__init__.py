"""The papers' tables, measured on the RTL."""
