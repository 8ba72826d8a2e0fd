"""Hardware loops and post-increment accesses for the assembly of compilers that know RV32IMC only."""
