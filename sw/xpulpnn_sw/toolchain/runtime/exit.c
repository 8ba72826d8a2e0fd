/* The exit channel and everything that ends a program. */

#include <stdio.h>
#include <stdlib.h>
#include <xp_team.h>
#include <xpulpnn_rt.h>

#include "locks.h"

enum { HOST_WRITE = 64, ERROR_FILE = 2, PASS = 1, INTERRUPT_CAUSE = 31 };

__attribute__((section(".tohost"), aligned(64), used)) volatile uint64_t tohost;
__attribute__((section(".tohost"), aligned(64), used)) volatile uint64_t fromhost;

/* The low word starts the call; the high word is 0 from the start. */
static volatile uint32_t *word(volatile uint64_t *place) { return (volatile uint32_t *)place; }

__attribute__((weak, noinline)) void xp_write(int file, const void *bytes, uint32_t count) {
    static volatile uint64_t call[4];
    xp_lock(XP_LOCK_HOST);
    call[0] = HOST_WRITE;
    call[1] = (uint32_t)file;
    call[2] = (uintptr_t)bytes;
    call[3] = count;
    *word(&fromhost) = 0;
    __asm__ volatile("fence" : : : "memory");
    *word(&tohost) = (uintptr_t)call;
    while (*word(&fromhost) == 0) {
    }
    *word(&fromhost) = 0;
    __asm__ volatile("" : : : "memory");
    xp_unlock(XP_LOCK_HOST);
}

static __attribute__((noreturn)) void finish(uint32_t code) {
    uint32_t value = code << 1 | 1;
    if (code != 0 && value == PASS)
        value |= 2; /* the top bit, which is lost, was the only one */
    xp_cluster_end(code);
    *word(&tohost) = value;
    for (;;) {
    }
}

enum { HANDLERS = 32 };
static void (*handlers[HANDLERS])(void);
static unsigned handler_count;

int atexit(void (*function)(void)) {
    if (handler_count == HANDLERS)
        return -1;
    handlers[handler_count++] = function;
    return 0;
}

void exit(int code) {
    while (handler_count != 0)
        handlers[--handler_count]();
    fflush(NULL);
    xp_cluster_check();
    finish((uint32_t)code);
}

void abort(void) {
    handler_count = 0;
    exit(XP_FAIL_ABORT);
}

void __assert_func(const char *file, int line, const char *function, const char *condition) {
    (void)function;
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

/* An exception in what reports one, for the constants that it reads or for its stack, ends without another word. */
__attribute__((weak)) void xp_exception(struct xp_frame *frame) {
    static volatile char reporting[XP_CALLERS];
    unsigned cause = (unsigned)frame->mcause;
    if (reporting[XP_CALLER]++)
        finish(XP_FAIL_EXCEPTION + cause);
    fprintf(stderr, "exception: mcause %u, mepc 0x%08x\n", cause, (unsigned)frame->mepc);
    exit((int)(XP_FAIL_EXCEPTION + cause));
}

void xp_irq_default(unsigned line) {
    fprintf(stderr, "interrupt without handler: line %u\n", line);
    exit((int)(XP_FAIL_INTERRUPT + line));
}
