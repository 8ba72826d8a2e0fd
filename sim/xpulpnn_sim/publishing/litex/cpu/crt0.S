/* Start of LiteX software: vector table, entry of traps, memory as C expects it. Interrupts are handled by isr(). */

#define WORDS(n) (4 * (n))
#define FRAME WORDS(24)
#define SAVED 1, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31
#define LOOP_CSR 0x7C0
#define LOOP_CSRS 0, 1, 2, 4, 5, 6
#define VECTORED 1
/* mie: lines 16 to 31 are those of LiteX, masked by irq_setmask() */

    .section .text, "ax"
    .global _start, isr, main
_start:
    j start
    .balign 256
vectors:
    .option push
    .option norvc
    .rept 32
    j trap
    .endr
    .option pop

trap:
    addi sp, sp, -FRAME
    .set slot, 0
    .irp number, SAVED
    sw x\number, slot(sp)
    .set slot, slot + 4
    .endr
    .irp number, LOOP_CSRS
    csrr t0, LOOP_CSR + \number
    sw t0, slot(sp)
    .set slot, slot + 4
    .endr
    call isr
    .set slot, WORDS(16)
    .irp number, LOOP_CSRS
    lw t0, slot(sp)
    csrw LOOP_CSR + \number, t0
    .set slot, slot + 4
    .endr
    .set slot, 0
    .irp number, SAVED
    lw x\number, slot(sp)
    .set slot, slot + 4
    .endr
    addi sp, sp, FRAME
    mret

start:
    lla sp, _fstack
    lla t0, vectors + VECTORED
    csrw mtvec, t0
    csrw mie, zero
    lla a0, _fdata
    lla a1, _edata
    lla a2, _fdata_rom
1:
    bgeu a0, a1, 2f
    lw a3, 0(a2)
    sw a3, 0(a0)
    addi a0, a0, 4
    addi a2, a2, 4
    j 1b
2:
    lla a0, _fbss
    lla a1, _ebss
3:
    bgeu a0, a1, 4f
    sw zero, 0(a0)
    addi a0, a0, 4
    j 3b
4:
    call main
5:
    j 5b
