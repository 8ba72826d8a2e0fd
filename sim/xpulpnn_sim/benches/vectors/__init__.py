"""Vectors of units in columns: control words, operands and expected results of instructions."""
