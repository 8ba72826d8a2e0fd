#ifndef XPULPNN_SETJMP_H
#define XPULPNN_SETJMP_H

typedef unsigned jmp_buf[14];

int setjmp(jmp_buf place) __attribute__((returns_twice));
void longjmp(jmp_buf place, int value) __attribute__((noreturn));

#endif
