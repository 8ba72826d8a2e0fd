/* Loops of the compiler in a function that an interrupt handler calls too, while the same function is interrupted. */
#include <stdint.h>
#include <stdio.h>
#include <xpulpnn_rt.h>

enum { ROWS = 5, COLUMNS = 100 };
static volatile uint32_t taken, wrong;

/* The number of turns is a constant, so the hardware loop has no test behind it that would notice a lost turn. */
static __attribute__((noinline)) uint32_t turns(uint32_t value) {
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) value = value * 1664525u + 1013904223u;
        value ^= value >> 3;
    }
    return value;
}

static uint32_t expected(uint32_t value) {
    for (volatile int row = 0; row < ROWS; row++) {
        for (volatile int column = 0; column < COLUMNS; column++) value = value * 1664525u + 1013904223u;
        value ^= value >> 3;
    }
    return value;
}

static __attribute__((interrupt, aligned(256))) void handler(void) {
    wrong += turns(taken) != expected(taken);
    taken++;
}

int main(void) {
    XP_CSR_WRITE(XP_MTVEC, (uintptr_t)handler);
    xp_irq_enable(7);
    for (uint32_t round = 0; round < 12; round++) {
        xp_irq_on();
        uint32_t found = turns(round);
        xp_irq_off();
        wrong += found != expected(round);
    }
    printf("%u taken, %u wrong\n", (unsigned)taken, (unsigned)wrong);
    return wrong != 0;
}
