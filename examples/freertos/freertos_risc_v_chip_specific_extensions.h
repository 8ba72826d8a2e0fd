/* State of a task beside its registers: hardware loops, and the NN-RF where its words are CSRs (--set nn_csrs=true);
   without them tasks must not be switched within Mac&Load kernels. The kernel's port includes this file. */
#ifndef FREERTOS_XPULPNN_EXTENSIONS_H
#define FREERTOS_XPULPNN_EXTENSIONS_H

#include <xp_config.h>

#define portasmHAS_SIFIVE_CLINT 1
#define portasmHAS_MTIME 1

#ifdef XP_HAVE_XPULPV2
#define portasmLOOPS 0, 1, 2, 4, 5, 6
#define portasmLOOP_WORDS 8
#else
#define portasmLOOP_WORDS 0
#endif
#ifdef XP_NN_NUMBERS
#define portasmADDITIONAL_CONTEXT_SIZE (portasmLOOP_WORDS + (XP_NN_WORDS + 1) / 2 * 2)
#else
#define portasmADDITIONAL_CONTEXT_SIZE portasmLOOP_WORDS
#endif

#ifdef __ASSEMBLER__
/* The first word of the stack is the task's pc. */
.macro portasmSAVE_ADDITIONAL_REGISTERS
    addi sp, sp, -(portasmADDITIONAL_CONTEXT_SIZE * portWORD_SIZE)
#ifdef XP_HAVE_XPULPV2
    .irp number, portasmLOOPS
    csrr t0, 0x7C0 + \number
    sw t0, (1 + \number) * portWORD_SIZE(sp)
    .endr
#endif
#ifdef XP_NN_NUMBERS
    .irp number, XP_NN_NUMBERS
    csrr t0, 0x7D0 + \number
    sw t0, (1 + portasmLOOP_WORDS + \number) * portWORD_SIZE(sp)
    .endr
#endif
.endm

.macro portasmRESTORE_ADDITIONAL_REGISTERS
#ifdef XP_HAVE_XPULPV2
    .irp number, portasmLOOPS
    lw t0, (1 + \number) * portWORD_SIZE(sp)
    csrw 0x7C0 + \number, t0
    .endr
#endif
#ifdef XP_NN_NUMBERS
    .irp number, XP_NN_NUMBERS
    lw t0, (1 + portasmLOOP_WORDS + \number) * portWORD_SIZE(sp)
    csrw 0x7D0 + \number, t0
    .endr
#endif
    addi sp, sp, portasmADDITIONAL_CONTEXT_SIZE * portWORD_SIZE
.endm
#endif

#endif
