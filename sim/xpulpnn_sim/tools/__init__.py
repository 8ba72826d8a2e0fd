"""Shared helpers: jobs in processes, stored results, tables and pages, netlists, and Yosys."""
