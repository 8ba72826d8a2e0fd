"""Programs in assembly that own the whole machine: memory map, random instructions, blocks and handlers."""
