/* Start-up: vector table, initial state, entries of traps.
 *
 * The table and the entry point follow the PULP layout: 32 vectors at the start of the block, _start at 0x80. A trap
 * is handled by a C function that is called with everything saved: xp_irq_<line>(void), or xp_exception(frame), which
 * may change the frame. Where that is too slow, xp_vector_<line> (xp_vector_exception) replaces the entry itself: a C
 * function with __attribute__((interrupt)). Handlers may use Mac&Load if the words of the NN-RF are CSRs: they are
 * saved too.
 */

#include <xp_config.h>

#define WORDS(n) (4 * (n))
#ifdef XP_NN_NUMBERS
#define FRAME WORDS(56)
#else
#define FRAME WORDS(44)
#endif
#define FRAME_MEPC WORDS(32)
#define FRAME_MCAUSE WORDS(33)
#define FRAME_MSTATUS WORDS(34)
#define FRAME_LOOPS WORDS(36)
#define FRAME_NN WORDS(44)
#define NN_CSR 0x7D0
#define LINE_MASK 31
#define VECTORED 1
#define CORE_MASK 31

#define RETURN_COLUMN 64 /* in DWARF: address at which a function has been interrupted */
#define MEPC_COLUMN 4929 /* 4096 and the number of the CSR */

#define CALLER_SAVED 1, 6, 7, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31
#define CALLEE_SAVED 3, 4, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
#define LINES 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, \
        29, 30, 31

#ifdef XP_HAVE_XPULPV2
#define LOOP_CSRS 0, 1, 2, 4, 5, 6
#define LOOP_CSR 0x7C0
#endif

    .section .vectors, "ax"
    .option push
    .option norvc
    .option norelax
    .globl xp_vectors
xp_vectors:
    j xp_vector_exception
    .irp line, LINES
    j xp_vector_\line
    .endr
    .option pop

    .weak __tls_start

    .section .data.arguments, "aw"
    .balign 4
    .globl xp_arguments
xp_arguments: /* argc and argv, which simulators set before the start, and an empty environment */
    .word 1
    .word arguments
    .word 0
arguments:
    .word program
    .word 0
program:
    .asciz "program"

    .section .text.start, "ax"
    .globl _start
    .type _start, @function
    .cfi_sections .debug_frame
_start:
    .cfi_startproc
    .cfi_undefined ra /* nobody has called it */
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    la t0, xp_vectors + VECTORED
    csrw mtvec, t0
#ifdef XP_CLUSTER
    /* core 0 goes on as a single core does, the others have their stacks above its */
    csrr t0, mhartid
    andi t0, t0, CORE_MASK
    beqz t0, 3f
    la t1, __core_stack_size
    mul t1, t1, t0
    add sp, sp, t1
    tail xp_worker
3:
#endif
    la t0, __bss_start
    la t1, __bss_end
1:
    bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:
#ifdef XP_CLUSTER
    call xp_cluster_start
#endif
    lui tp, %hi(__tls_start)
    addi tp, tp, %lo(__tls_start)
    call __libc_init_array
    la a2, xp_arguments
    lw a0, 0(a2)
    lw a1, WORDS(1)(a2)
    addi a2, a2, WORDS(2)
    call main
    tail exit
    .cfi_endproc
    .size _start, . - _start

    /* where debuggers find what has been interrupted: nowhere until it is saved, as mepc is lost if saving it traps */
    .macro entered
    .cfi_def_cfa sp, 0
    .cfi_register RETURN_COLUMN, MEPC_COLUMN
    addi sp, sp, -FRAME
    .cfi_def_cfa_offset FRAME
    .cfi_undefined RETURN_COLUMN
    .endm
    .macro saved
    .cfi_offset RETURN_COLUMN, FRAME_MEPC - FRAME
    .irp number, CALLER_SAVED, 5, 10, 11
    .cfi_offset \number, WORDS(\number) - FRAME
    .endr
    .endm

    .cfi_startproc
    .cfi_signal_frame
    .cfi_return_column RETURN_COLUMN
    .irp line, LINES
    .weak xp_vector_\line
    .type xp_vector_\line, @function
xp_vector_\line:
    entered
    sw a0, WORDS(10)(sp)
    li a0, \line
    j interrupt
    .endr

    .weak xp_vector_exception
    .type xp_vector_exception, @function
xp_vector_exception:
    entered
    sw a0, WORDS(10)(sp)
    csrr a0, mcause
    bgez a0, exception
    /* direct mode: interrupts arrive here too */
    andi a0, a0, LINE_MASK

interrupt:
    .cfi_remember_state
    sw t0, WORDS(5)(sp)
    jal t0, save
    saved
    la a1, handlers
    slli a2, a0, 2
    add a1, a1, a2
    lw a1, 0(a1)
    jalr a1
    j restore

exception:
    .cfi_restore_state
    .cfi_remember_state
    sw t0, WORDS(5)(sp)
    jal t0, save
    saved
    .irp number, CALLEE_SAVED
    sw x\number, WORDS(\number)(sp)
    .endr
    sw zero, WORDS(0)(sp)
    addi a1, sp, FRAME
    sw a1, WORDS(2)(sp)
    sw a0, FRAME_MCAUSE(sp)
    mv a0, sp
    call xp_exception
    .irp number, CALLEE_SAVED
    lw x\number, WORDS(\number)(sp)
    .endr

restore:
#ifdef LOOP_CSRS
    .irp number, LOOP_CSRS
    lw t0, FRAME_LOOPS + WORDS(\number)(sp)
    csrw LOOP_CSR + \number, t0
    .endr
#endif
#ifdef XP_NN_NUMBERS
    .irp number, XP_NN_NUMBERS
    lw t0, FRAME_NN + WORDS(\number)(sp)
    csrw NN_CSR + \number, t0
    .endr
#endif
    lw t0, FRAME_MEPC(sp)
    csrw mepc, t0
    lw t0, FRAME_MSTATUS(sp)
    csrw mstatus, t0
    .irp number, CALLER_SAVED, 5, 10, 11
    lw x\number, WORDS(\number)(sp)
    .endr
    addi sp, sp, FRAME
    mret

    .irp line, LINES
    .weak xp_irq_\line
xp_irq_\line:
    .endr
    tail xp_irq_default

    /* Called with the return address in t0; a0 and t0 are saved already. Changes t1. */
save:
    .cfi_restore_state
    .irp number, CALLER_SAVED, 11
    sw x\number, WORDS(\number)(sp)
    .endr
    csrr t1, mepc
    sw t1, FRAME_MEPC(sp)
    csrr t1, mstatus
    sw t1, FRAME_MSTATUS(sp)
#ifdef LOOP_CSRS
    .irp number, LOOP_CSRS
    csrr t1, LOOP_CSR + \number
    sw t1, FRAME_LOOPS + WORDS(\number)(sp)
    .endr
#endif
#ifdef XP_NN_NUMBERS
    .irp number, XP_NN_NUMBERS
    csrr t1, NN_CSR + \number
    sw t1, FRAME_NN + WORDS(\number)(sp)
    .endr
#endif
    jr t0
    .cfi_endproc

    .section .rodata
    .balign 4
handlers:
    .word xp_irq_default
    .irp line, LINES
    .word xp_irq_\line
    .endr
