/* Core 0 counts periods of the cluster's timer by interrupts; the names of registers and bits are the header's. */
#include "xp_cluster.h"
#include "xpulpnn_rt.h"

static volatile int periods;

__attribute__((interrupt, aligned(256))) static void handler(void) {
    xp_eu_write(XP_EU_BUFFER_CLEAR, 1u << XP_EU_LINE_TIMER_LOW);
    if (++periods == 3)
        XP_REGISTER(XP_TIMER, XP_TIMER_CONFIG_LOW) = 0;
}

int main(void) {
    if (xp_core() == 0) {
        __asm__ volatile("csrw mtvec, %0" ::"r"(handler));
        xp_eu_write(XP_EU_IRQ_MASK, 1u << XP_EU_LINE_TIMER_LOW);
        XP_REGISTER(XP_TIMER, XP_TIMER_COMPARE_LOW) = 10;
        XP_REGISTER(XP_TIMER, XP_TIMER_CONFIG_LOW) = XP_TIMER_ENABLE | XP_TIMER_RESET | XP_TIMER_EVENT |
            XP_TIMER_CLEAR | XP_TIMER_PRESCALER | 9 << XP_TIMER_PRESCALE_LSB;
        __asm__ volatile("csrw mie, %0; csrsi mstatus, 8" ::"r"(1 << 11));
        while (periods < 3) {
        }
    }
    return 0;
}
