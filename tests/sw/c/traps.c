/* Ends in the way `mode` says, which the test sets; the handlers are those of the runtime. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <xpulpnn_rt.h>

volatile int mode = -1;
static volatile int depth = 1 << 30;

static int deep(int level) {
    volatile int frame[64] = {level};
    return level == depth ? frame[0] : deep(level + 1) + frame[0];
}

static void illegal(void) { __asm__ volatile(".half 0"); }

int main(void) {
    printf("before");
    switch (mode) {
    case 8: /* the exception meets another on its way out, where nothing is printed any more */
        fflush(stdout);
        atexit(illegal);
    case 0: illegal(); break;
    case 1: __asm__ volatile("ebreak"); break;
    case 2:
        xp_irq_enable(7);
        xp_irq_on();
        for (;;)
            xp_wait_for_interrupt();
    case 3: abort();
    case 4: assert(depth == 0); break;
    case 5: return deep(0);
    case 6: return -1;
    case 7: exit(INT32_MIN);
    }
    return 0;
}
