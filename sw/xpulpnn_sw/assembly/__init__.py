"""Assembler, disassembler and the optimisation of loops in compiled assembly."""
