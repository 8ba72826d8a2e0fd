"""What a run of the explorer shows: tables for the terminal, a flat CSV file, one self-contained HTML report."""
