"""Reports of an exploration: tables for the terminal, a flat CSV file, one self-contained HTML report."""
