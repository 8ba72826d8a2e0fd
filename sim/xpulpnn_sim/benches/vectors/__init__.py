"""Vectors of units in columns: control words, operands and expected results of rows of the instruction table."""
