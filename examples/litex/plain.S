/* The first instructions of a program for any RISC-V CPU of LiteX. */
    .section .loaded, "ax"
    .globl _start
_start:
    .option norelax
    la gp, __global_pointer$
    la sp, __stack_top
    tail main
