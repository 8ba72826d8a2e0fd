/* Jump to a program that has been loaded: its address is the fourth argument, the first three are the program's. Other
   cores of a cluster begin there too. */

#ifdef CORES
#define FETCH_ENABLE 0x10200008
#define BOOT_ADDRESS 0x10200040
#define ALL_CORES ((1 << CORES) - 1)
#endif

    .section .text, "ax"
    .global boot_helper
boot_helper:
    fence.i
#ifdef CORES
    li t0, BOOT_ADDRESS
    li t1, BOOT_ADDRESS + 4 * CORES
1:
    sw a3, 0(t0)
    addi t0, t0, 4
    bltu t0, t1, 1b
    li t0, FETCH_ENABLE
    li t1, ALL_CORES
    sw t1, 0(t0)
#endif
    jr a3
