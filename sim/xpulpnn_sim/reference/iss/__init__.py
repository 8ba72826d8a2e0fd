"""Instruction-set simulator, compiled from the statements of the instruction table."""
