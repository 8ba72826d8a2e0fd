"""Processes for jobs, a store of finished results, tables and pages, for every part of the product."""
