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

/* Handlers and the function that calls them, which the first handler sets: a program without any has no table. */
enum { HANDLERS = 128 };
static struct {
    void (*function)(void *);
    void *argument;
} handlers[HANDLERS];
static unsigned handler_count;
static void (*at_exit)(void);

void *__dso_handle = NULL;

static void call_handlers(void) {
    while (handler_count != 0) {
        unsigned last = --handler_count;
        handlers[last].function(handlers[last].argument);
    }
}

int __cxa_atexit(void (*function)(void *), void *argument, void *object) {
    (void)object;
    if (handler_count == HANDLERS)
        return -1;
    at_exit = call_handlers;
    handlers[handler_count].argument = argument;
    handlers[handler_count++].function = function;
    return 0;
}

static void (*quick_handlers[HANDLERS])(void);
static unsigned quick_count;

int at_quick_exit(void (*function)(void)) {
    return quick_count == HANDLERS ? -1 : (quick_handlers[quick_count++] = function, 0);
}

int atexit(void (*function)(void)) { return __cxa_atexit((void (*)(void *))(uintptr_t)function, NULL, NULL); }

/* Tables of the linker script; weak, since a script of the user may have none. */
typedef void (*initialiser)(void);
extern __attribute__((weak)) const initialiser __preinit_array_start[], __preinit_array_end[], __init_array_start[],
    __init_array_end[], __fini_array_start[], __fini_array_end[];

void __libc_init_array(void) {
    for (const initialiser *each = __preinit_array_start; each != __preinit_array_end; ++each)
        (*each)();
    for (const initialiser *each = __init_array_start; each != __init_array_end; ++each)
        (*each)();
}

static __attribute__((noreturn)) void end(uint32_t code) {
    fflush(NULL);
    xp_cluster_check();
    finish(code);
}

void exit(int code) {
    if (at_exit != NULL)
        at_exit();
    for (const initialiser *each = __fini_array_end; each != __fini_array_start;)
        (*--each)();
    end((uint32_t)code);
}

void _exit(int code) { finish((uint32_t)code); }
void _Exit(int code) { finish((uint32_t)code); }
void quick_exit(int code) {
    while (quick_count != 0)
        quick_handlers[--quick_count]();
    _Exit(code);
}
void abort(void) { end(XP_FAIL_ABORT); }
int system(const char *command) { return command == NULL ? 0 : -1; } /* there is no shell */

/* What raise of the C library calls for a signal without handler. */
int getpid(void) { return 1; }
int kill(int process, int signal) { (void)process, (void)signal, abort(); }

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
