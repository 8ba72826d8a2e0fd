#ifndef XPULPNN_STDLIB_H
#define XPULPNN_STDLIB_H

#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

/* Ends the run: 0 passes, any other code of 31 bits fails with it. */
void exit(int code) __attribute__((noreturn));
void abort(void) __attribute__((noreturn));

static inline int abs(int value) { return value < 0 ? -value : value; }

#endif
