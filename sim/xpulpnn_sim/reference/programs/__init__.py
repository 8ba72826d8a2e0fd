"""Programs and what comes of them: ELF files, symbols, traces, exits."""
