"""Reports of an exploration: tables for the terminal, a CSV file, and an HTML report in one file."""
