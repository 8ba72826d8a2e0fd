"""Assembly programs without a runtime: memory map, random instructions, blocks and handlers."""
