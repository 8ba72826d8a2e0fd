# saved_registers(): whether longjmp brings back what a function must keep; returns 0 if it does. s0 to s11 have the
# numbers of their registers at setjmp, and others at longjmp.

#define SAVED 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27

    .text
    .globl saved_registers
saved_registers:
    addi sp, sp, -128
    sw ra, 4(sp)
    .irp number, SAVED
    sw x\number, 4 * \number(sp)
    li x\number, \number
    .endr
    la a0, there
    call setjmp
    bnez a0, 1f
    .irp number, SAVED
    li x\number, 100 + \number
    .endr
    addi sp, sp, -64
    la a0, there
    li a1, 3
    call longjmp
1:
    addi a0, a0, -3
    .irp number, SAVED
    addi t0, x\number, -\number
    or a0, a0, t0
    lw x\number, 4 * \number(sp)
    .endr
    lw ra, 4(sp)
    addi sp, sp, 128
    ret

    .bss
    .balign 4
there:
    .zero 56
