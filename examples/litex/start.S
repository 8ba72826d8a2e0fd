/* The first instruction of a program that LiteX's BIOS has loaded: core 0 fills the TCDM, where there is one. */
#define CORE_MASK 31

    .section .loaded, "ax"
    /* gp has no value yet */
    .option norelax
    .globl loaded
loaded:
    csrr t0, mhartid
    andi t0, t0, CORE_MASK
    bnez t0, 2f
    la a0, __tcdm_load
    la a1, __tcdm_start
    la a2, __tcdm_end
1:
    bgeu a1, a2, 2f
    lw a3, 0(a0)
    sw a3, 0(a1)
    addi a0, a0, 4
    addi a1, a1, 4
    j 1b
2:
    tail _start
