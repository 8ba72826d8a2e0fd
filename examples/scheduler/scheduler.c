/* A small preemptive scheduler: on every core three tasks, each in a Mac&Load kernel of its own, which the timer of the
   cluster interrupts after 300 to 2,000 cycles.

       xpulpnn cc examples/scheduler/scheduler.c --preset cluster2 --set nn_csrs=true --cores 2 -o build/scheduler.elf
       xpulpnn run build/scheduler.elf

   The entry of an interrupt keeps registers, hardware loops and the NN-RF on the stack of the task, so a switch of
   stacks in the handler is a switch of tasks. SWITCHES is the number of switches after which all ends. */
#include <stdio.h>
#include <xp_team.h>
#include <xpulpnn.h>

#ifndef SWITCHES
#define SWITCHES 40
#endif
enum { TASKS = 3, STACK = 384, ELEMENTS = 384, SHORTEST = 300, LONGEST = 2000, EXTERNAL_LINE = 11 };
enum { TIMER_ENABLE = 1, TIMER_RESET = 2, TIMER_GIVES_EVENT = 4, TIMER_ONE_SHOT = 32 };
enum { TIMER_EVENT = 1 << XP_EU_LINE_TIMER_LOW };
/* Selectors of a Mac&Load: one pair of entries of the NN-RF for each operand, and which is loaded. */
enum { LOAD_A = 1 << 3, LOAD_W = 1 << 4 };

typedef uint32_t *Stack;
static uint32_t stacks[XP_CORES][TASKS][STACK] __attribute__((section(".data_l1")));
static Stack waiting[XP_CORES][TASKS], main_stack[XP_CORES]; /* of what does not run: all its state is on its stack */
static unsigned current[XP_CORES], switches[XP_CORES], seed = 1;
static volatile unsigned ends, results[XP_CORES][TASKS], wrong[XP_CORES];
static uint32_t activations[ELEMENTS / 4 + 1], weights[ELEMENTS / 4 + 1];

/* Keeps what a function must keep on the stack, goes on with another stack, and returns there. */
void change_stack(Stack *from, Stack to);
__asm__("change_stack:\n"
        "    addi sp, sp, -52\n"
        "    sw ra, 0(sp)\n    sw s0, 4(sp)\n    sw s1, 8(sp)\n    sw s2, 12(sp)\n    sw s3, 16(sp)\n"
        "    sw s4, 20(sp)\n    sw s5, 24(sp)\n    sw s6, 28(sp)\n    sw s7, 32(sp)\n    sw s8, 36(sp)\n"
        "    sw s9, 40(sp)\n    sw s10, 44(sp)\n    sw s11, 48(sp)\n"
        "    sw sp, 0(a0)\n"
        "    mv sp, a1\n"
        "    lw ra, 0(sp)\n    lw s0, 4(sp)\n    lw s1, 8(sp)\n    lw s2, 12(sp)\n    lw s3, 16(sp)\n"
        "    lw s4, 20(sp)\n    lw s5, 24(sp)\n    lw s6, 28(sp)\n    lw s7, 32(sp)\n    lw s8, 36(sp)\n"
        "    lw s9, 40(sp)\n    lw s10, 44(sp)\n    lw s11, 48(sp)\n"
        "    addi sp, sp, 52\n"
        "    ret\n");

/* Sum of products of unsigned activations and signed weights, `bits` wide, in plain C. */
static int32_t plain(unsigned bits) {
    int32_t sum = 0;
    for (unsigned at = 0; at < ELEMENTS * 8; at += bits) {
        uint32_t word = activations[at / 32] >> at % 32, other = weights[at / 32] << (32 - bits - at % 32);
        sum += (int32_t)(word & ((1u << bits) - 1)) * ((int32_t)other >> (32 - bits));
    }
    return sum;
}

/* The same with Mac&Load, two words at a time. */
#define KERNEL(name, mac)                                                                                              \
    static int32_t name(void) {                                                                                        \
        const uint32_t *a = activations, *w = weights;                                                                 \
        int32_t sum = 0;                                                                                               \
        mac(0, &a, LOAD_A);                                                                                            \
        for (int words = 0; words < ELEMENTS / 4; ++words) {                                                           \
            mac(0, &w, LOAD_W);                                                                                        \
            sum = mac(sum, &a, LOAD_A);                                                                                \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
KERNEL(of_bytes, xp_mlsdotsup_b)
KERNEL(of_nibbles, xp_mlsdotsup_n)
KERNEL(of_crumbs, xp_mlsdotsup_c)
static int32_t (*const kernels[TASKS])(void) = {of_bytes, of_nibbles, of_crumbs};
static int32_t expected[TASKS];

/* A task begins behind a change of stacks, with interrupts off, and never ends. */
static void task(void) {
    unsigned core = xp_core(), number = current[core];
    xp_irq_on();
    for (;;) {
        wrong[core] += kernels[number]() != expected[number];
        ++results[core][number];
    }
}

static void set_timer(void) {
    seed = seed * 1103515245 + 12345;
    XP_REGISTER(XP_TIMER, XP_TIMER_COMPARE_LOW) = SHORTEST + (seed >> 8) % (LONGEST - SHORTEST);
    XP_REGISTER(XP_TIMER, XP_TIMER_CONFIG_LOW) =
        TIMER_ENABLE | TIMER_RESET | TIMER_GIVES_EVENT | TIMER_ONE_SHOT;
}

void xp_irq_11(void) {
    unsigned core = xp_core(), last = current[core];
    xp_eu_write(XP_EU_BUFFER_CLEAR, TIMER_EVENT);
    ++switches[core];
    unsigned last_switch = ends;
    if (core == 0) {
        set_timer();
        ends |= switches[core] == SWITCHES;
    }
    if (last_switch)
        change_stack(&waiting[core][last], main_stack[core]);
    current[core] = (last + 1) % TASKS;
    change_stack(&waiting[core][last], waiting[core][current[core]]);
}

static void schedule(void *unused) {
    (void)unused;
    unsigned core = xp_core();
    for (int number = 0; number < TASKS; ++number) {
        waiting[core][number] = &stacks[core][number][STACK - 16];
        waiting[core][number][0] = (uint32_t)task;
    }
    xp_eu_write(XP_EU_IRQ_MASK, TIMER_EVENT);
    xp_irq_enable(EXTERNAL_LINE);
    xp_barrier();
    if (core == 0)
        set_timer();
    change_stack(&main_stack[core], waiting[core][0]);
    xp_irq_off();
    xp_irq_disable(EXTERNAL_LINE);
}

int main(void) {
    static const unsigned widths[TASKS] = {8, 4, 2};
    uint32_t random = 1, failed = 0, done = 0;
    for (int word = 0; word < ELEMENTS / 4; ++word) {
        activations[word] = random = random * 1664525 + 1013904223;
        weights[word] = random = random * 1664525 + 1013904223;
    }
    for (int number = 0; number < TASKS; ++number)
        expected[number] = plain(widths[number]);
    xp_fork(0, schedule, 0);
    for (int core = 0; core < XP_CORES; ++core) {
        failed += wrong[core] + (switches[core] < SWITCHES);
        for (int number = 0; number < TASKS; ++number) {
            done += results[core][number];
            failed += results[core][number] == 0;
        }
    }
    printf("%u results of %u tasks, %u switches of core 0, %u wrong\n", (unsigned)done, TASKS * XP_CORES, switches[0],
           (unsigned)failed);
    return failed != 0;
}
