"""Assembler, disassembler and the loop pass on assembly text."""
