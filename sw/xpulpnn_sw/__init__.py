"""Software that runs on the hardware: assembler, disassembler and kernels."""
