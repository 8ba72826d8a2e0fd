"""What each paper printed, row by row, and what is run beside it."""
