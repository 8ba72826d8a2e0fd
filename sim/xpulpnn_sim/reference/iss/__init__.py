"""Instruction-set simulator built on the ISA table and the golden references."""
