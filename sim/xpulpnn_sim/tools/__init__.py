"""Processes for jobs, a store of results, tables and pages, netlists and Yosys."""
