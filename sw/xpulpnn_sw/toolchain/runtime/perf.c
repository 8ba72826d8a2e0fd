/* Timer of a single core, and the counters of pi_perf. */

#include <pmsis.h>
#include <xp_team.h>

#include "locks.h"

#ifndef XP_CLUSTER
static uint32_t timer_start, timer_sum;
static int timer_runs;

void xp_timer_start(void) {
    timer_start = xp_cycles();
    timer_runs = 1;
}
void xp_timer_stop(void) {
    timer_sum = xp_timer_count();
    timer_runs = 0;
}
void xp_timer_reset(void) {
    timer_start = xp_cycles();
    timer_sum = 0;
}
uint32_t xp_timer_count(void) { return timer_sum + (timer_runs ? xp_cycles() - timer_start : 0); }
#endif

#ifdef XP_HAVE_PERFORMANCE_COUNTERS
void pi_perf_conf(uint32_t events) { XP_CSR_WRITE(XP_PCER, events & ((1u << PI_PERF_CYCLES) - 1)); }

void pi_perf_reset(void) {
    XP_CSR_WRITE(XP_PCMR, 0);
    XP_CSR_WRITE(XP_PCCR_ALL, 0);
    xp_timer_reset();
}

void pi_perf_start(void) {
    xp_timer_start();
    XP_CSR_WRITE(XP_PCMR, 1);
}

void pi_perf_stop(void) {
    XP_CSR_WRITE(XP_PCMR, 0);
    xp_timer_stop();
}

#define READ(event) case event: return XP_CSR_READ(XP_PCCR + event);
uint32_t pi_perf_read(int event) {
    switch (event) {
    case PI_PERF_CYCLES: return xp_timer_count();
    READ(0) READ(1) READ(2) READ(3) READ(4) READ(5) READ(6) READ(7) READ(8)
    READ(9) READ(10) READ(11) READ(12) READ(13) READ(14) READ(15) READ(16)
    default: return 0;
    }
}
#else
/* The machine counters stand in for the two they can. */
static struct {
    uint32_t start[2], sum[2];
    int runs;
} counters[XP_CALLERS];

static uint32_t machine_counter(int event) { return event == PI_PERF_INSTR ? xp_instructions() : xp_cycles(); }
void pi_perf_conf(uint32_t events) { (void)events; }

void pi_perf_reset(void) {
    for (int event = 0; event < 2; ++event)
        counters[XP_CALLER].sum[event] = 0, counters[XP_CALLER].start[event] = machine_counter(event);
    xp_timer_reset();
}

void pi_perf_start(void) {
    counters[XP_CALLER].runs = 1;
    xp_timer_start();
    for (int event = 0; event < 2; ++event)
        counters[XP_CALLER].start[event] = machine_counter(event);
}

void pi_perf_stop(void) {
    for (int event = 0; event < 2; ++event)
        counters[XP_CALLER].sum[event] = pi_perf_read(event);
    xp_timer_stop();
    counters[XP_CALLER].runs = 0;
}

uint32_t pi_perf_read(int event) {
    if (event == PI_PERF_CYCLES)
        return xp_timer_count();
    if (event != PI_PERF_ACTIVE_CYCLES && event != PI_PERF_INSTR)
        return 0;
    uint32_t since = counters[XP_CALLER].runs ? machine_counter(event) - counters[XP_CALLER].start[event] : 0;
    return counters[XP_CALLER].sum[event] + since;
}
#endif
