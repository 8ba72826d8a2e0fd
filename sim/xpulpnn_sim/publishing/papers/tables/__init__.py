"""Figures of each paper, row by row, and the runs that are compared with them."""
