/* What a function must keep: the callee-saved registers, stack pointer and return address. Hardware loops are left as
   they are, so neither function may be called from the body of one. */

#define SAVED 1, 2, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27

    .section .text.setjmp, "ax"
    .globl setjmp
    .type setjmp, @function
setjmp:
    .set place, 0
    .irp number, SAVED
    sw x\number, place(a0)
    .set place, place + 4
    .endr
    li a0, 0
    ret
    .size setjmp, . - setjmp

    .section .text.longjmp, "ax"
    .globl longjmp
    .type longjmp, @function
longjmp:
    .set place, 0
    .irp number, SAVED
    lw x\number, place(a0)
    .set place, place + 4
    .endr
    seqz a0, a1
    add a0, a0, a1
    ret
    .size longjmp, . - longjmp
