"""Hardware loops and post-increment accesses for assembly of compilers that only know RV32IMC."""
