/* Loops of the compiler in a function that an interrupt handler calls too, while the same function is interrupted. */
#include <stdint.h>
#include <stdio.h>
#include <xpulpnn_rt.h>

#define WORDS 40
static uint32_t data[WORDS];
static volatile uint32_t taken, wrong;

static __attribute__((noinline)) uint32_t sum(const uint32_t *words, int rows, int columns) {
    uint32_t total = 0;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) total = total * 3 + words[row * columns + column];
    return total;
}

static uint32_t expected(int count) {
    uint32_t total = 0;
    for (volatile int i = 0; i < count; i++) total = total * 3 + data[i];
    return total;
}

static __attribute__((interrupt, aligned(256))) void handler(void) {
    wrong += sum(data, 3, 2) != expected(6);
    taken++;
}

int main(void) {
    for (int i = 0; i < WORDS; i++) data[i] = (uint32_t)i * 2654435761u;
    XP_CSR_WRITE(XP_MTVEC, (uintptr_t)handler);
    uint32_t right = expected(WORDS);
    xp_irq_enable(7);
    xp_irq_on();
    for (int round = 0; round < 40; round++) {
        wrong += sum(data, 5, 8) != right;
        /* the same call again: the words might have changed */
        __asm__ volatile("" : : : "memory");
    }
    xp_irq_off();
    printf("%u taken, %u wrong\n", (unsigned)taken, (unsigned)wrong);
    return wrong != 0;
}
