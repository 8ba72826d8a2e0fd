/* The cores of a cluster: core 0 runs main and forks, the others wait for work. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xp_cluster.h>

#include "locks.h"

enum { ALL_CORES = (1 << XP_CORES) - 1, CANARY = 0x5AC4F00D };
enum { LINES = 1 << XP_EU_LINE_BARRIER | 1 << XP_EU_LINE_MUTEX | 1 << XP_EU_LINE_DISPATCH };

__attribute__((section(".data_l1"))) volatile uint32_t xp_locks[XP_LOCKS] = {0};
__attribute__((section(".data_l1"))) static unsigned team = XP_CORES;

extern uint32_t __stacks_bottom[], __stack_top[];
extern char __core_stack_size[];

/* The word of a core's stack that tells whether it has overflowed: near its lower end, and for each core in another bank,
   since all look at the same time. */
static volatile uint32_t *stack_end(unsigned core) {
    if (core == 0)
        return __stacks_bottom;
    return __stack_top + (core - 1) * ((uintptr_t)__core_stack_size / sizeof(uint32_t)) + core;
}

/* Reports a stack that has grown into the one below, which belongs to another core: nothing can be trusted any more. */
static __attribute__((noinline, noreturn)) void overflowed(unsigned core) {
    *stack_end(core) = CANARY;
    fprintf(stderr, "the stack of core %u has overflowed: give it more with --stack or --core-stack\n", core);
    exit(XP_FAIL_STACK);
}

void xp_cluster_check(void) {
    for (unsigned core = 0; core < XP_CORES; ++core) {
        if (*stack_end(core) != CANARY)
            overflowed(core);
    }
}

void xp_cluster_start(void) {
    for (unsigned core = 0; core < XP_CORES; ++core)
        *stack_end(core) = CANARY;
    xp_eu_write(XP_EU_MASK, LINES);
    xp_barrier_set(0, ALL_CORES);
}

/* What the other cores do, from their start on. */
__attribute__((noreturn)) void xp_worker(void) {
    xp_eu_write(XP_EU_MASK, xp_core() < XP_CORES ? LINES : 0);
    if (xp_core() >= XP_CORES) {
        for (;;)
            (void)xp_eu_wait(XP_EU_WAIT);
    }
    volatile uint32_t *end = stack_end(xp_core());
    for (;;) {
        void (*function)(void *) = (void (*)(void *))(uintptr_t)xp_eu_wait(XP_EU_DISPATCH_FIFO);
        function((void *)(uintptr_t)xp_eu_wait(XP_EU_DISPATCH_FIFO));
        if (*end != CANARY)
            overflowed(xp_core());
        xp_barrier();
    }
}

void xp_fork(unsigned cores, void (*function)(void *), void *argument) {
    if (cores > XP_CORES) {
        fprintf(stderr, "a team must have at most %u cores, not %u\n", (unsigned)XP_CORES, cores);
        abort();
    }
    unsigned count = cores == 0 ? XP_CORES : cores;
    uint32_t mask = (1u << count) - 1;
    team = count;
    xp_barrier_set(0, mask);
    if (count > 1) {
        xp_eu_write(XP_EU_DISPATCH_TEAM, mask & ~1u);
        xp_eu_write(XP_EU_DISPATCH_FIFO, (uintptr_t)function);
        xp_eu_write(XP_EU_DISPATCH_FIFO, (uintptr_t)argument);
    }
    function(argument);
    if (*stack_end(0) != CANARY)
        overflowed(0);
    xp_barrier();
}

unsigned xp_team_cores(void) { return team; }

/* Tells the world outside, as on PULP. */
void xp_cluster_end(uint32_t code) {
    XP_REGISTER(XP_CONTROL, XP_CONTROL_RETURN) = XP_CONTROL_RETURN_DONE | code;
    XP_REGISTER(XP_CONTROL, XP_CONTROL_EOC) = 1;
}
