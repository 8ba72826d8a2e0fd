"""The C headers generated from the instruction table."""
