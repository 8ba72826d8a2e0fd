"""Programs and their results: ELF files, symbols, traces, exits."""
