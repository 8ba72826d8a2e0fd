# What cores do until a debugger gives them a program.
    .globl _start, tohost
    .text
_start:
    j _start
    .data
    .balign 8
tohost:
    .dword 0
