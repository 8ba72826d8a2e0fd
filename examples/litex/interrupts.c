/* 10,000 timer interrupts at random distances, and one for what is typed, while a loop computes the same sum again and
   again. What it prints depends on the order of the distances and of the letters, and on nothing else. */
#include <stdint.h>
#include <stdio.h>
#include <xpulpnn_rt.h>

#define CSR_ACCESSORS_DEFINED
static inline uint32_t csr_read_simple(unsigned long address) { return *(volatile uint32_t *)address; }
static inline void csr_write_simple(unsigned long value, unsigned long address) { *(volatile uint32_t *)address = value; }
#include <generated/csr.h>

enum { TIMES = 10000, LETTERS = 100, WORDS = 64, UART_LINE = 16, TIMER_LINE = 17, PRIME = 16777619, TURNS = 5 };

static volatile uint32_t lost, times, letters, typed, timed = 2166136261u, spelled = 2166136261u;
static uint32_t state = 33;

static uint32_t drawn(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static void arm(void) {
    const uint32_t distance = 20 + (drawn() >> 23);
    timed = (timed ^ distance) * PRIME;
    timer0_en_write(0);
    timer0_load_write(distance);
    timer0_en_write(1);
}

/* Hardware loops of the handler and of what it interrupts use the same registers. */
static uint32_t looped(uint32_t times) {
    uint32_t count = 0;
    __asm__ volatile("lp.setup 0, %1, 1f\n addi zero, zero, 0\n 1: addi %0, %0, 1" : "+r"(count) : "r"(times));
    return count;
}

void xp_irq_17(void) {
    timer0_ev_pending_write(1);
    if (looped(TURNS) != TURNS)
        ++lost;
    if (++times < TIMES)
        arm();
}

void xp_irq_16(void) {
    ++typed;
    while (!uart_rxempty_read()) {
        spelled = (spelled ^ uart_rxtx_read()) * PRIME;
        uart_ev_pending_write(2);
        ++letters;
    }
    uart_ev_pending_write(2);
}

static uint32_t sum(const uint32_t *words) {
    uint32_t result = 0;
    for (int i = 0; i < WORDS; ++i)
        result = result * 31 + words[i];
    return result;
}

int main(void) {
    static uint32_t words[WORDS];
    for (int i = 0; i < WORDS; ++i)
        words[i] = drawn();
    const uint32_t right = sum(words);
    uint32_t rounds = 0, wrong = 0;
    printf("type %d letters\n", LETTERS);
    timer0_reload_write(0);
    timer0_ev_pending_write(1);
    timer0_ev_enable_write(1);
    uart_ev_enable_write(2);
    xp_irq_enable(UART_LINE);
    xp_irq_enable(TIMER_LINE);
    arm();
    xp_irq_on();
    while (times < TIMES || letters < LETTERS) {
        wrong += sum(words) != right;
        wrong += looped(WORDS) != WORDS;
        ++rounds;
    }
    xp_irq_off();
    printf("%u timer interrupts, %u of the UART, %u rounds\n", (unsigned)times, (unsigned)typed, (unsigned)rounds);
    printf("sum %08x, timed %08x, spelled %08x, %u wrong\n", (unsigned)right, (unsigned)timed, (unsigned)spelled,
           (unsigned)(wrong + lost));
    return 0;
}
