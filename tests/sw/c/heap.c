/* Random calls of the heap. Every piece of memory holds a pattern of its own, so that two that overlap, or one that loses
   bytes when it moves, are seen; at the end all memory must be in one piece again. Exits with the line of the first
   failure. */
#include "check.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 64, STEPS = 1500, LARGEST = 2500 };

static struct {
    uint8_t *memory;
    size_t size;
    uint8_t seed;
} pieces[PIECES];

volatile unsigned refused, moved;

static uint32_t state = 12345;
static uint32_t draw(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state * limit >> 32);
}

static void fill(int i) {
    pieces[i].seed = (uint8_t)draw(256);
    for (size_t k = 0; k < pieces[i].size; k++)
        pieces[i].memory[k] = (uint8_t)(pieces[i].seed + k * 7);
}

static void check(int i, size_t count) {
    for (size_t k = 0; k < count; k++)
        CHECK(pieces[i].memory[k] == (uint8_t)(pieces[i].seed + k * 7));
}

static size_t size(void) { return draw(4) ? draw(100) : draw(LARGEST); }

static void step(int i) {
    uint8_t *memory;
    size_t count = size();
    if (pieces[i].memory == NULL) {
        int cleared = draw(3) == 0;
        memory = cleared ? calloc(count, 1) : malloc(count);
        for (size_t k = 0; cleared && memory != NULL && k < count; k++)
            CHECK(memory[k] == 0);
    } else if (draw(2)) {
        check(i, pieces[i].size);
        free(pieces[i].memory);
        pieces[i].memory = NULL;
        return;
    } else {
        memory = realloc(pieces[i].memory, count);
        if (memory == NULL) {
            refused++;
            check(i, pieces[i].size);
            return;
        }
        moved += memory != pieces[i].memory;
        pieces[i].memory = memory;
        check(i, count < pieces[i].size ? count : pieces[i].size);
    }
    if (memory == NULL) {
        refused++;
        return;
    }
    CHECK(((uintptr_t)memory & 15) == 0);
    pieces[i].memory = memory;
    pieces[i].size = count;
    fill(i);
}

int main(void) {
    size_t most = 0;
    for (size_t try = 1 << 20; try != 0; try /= 2) {
        void *volatile memory = malloc(most + try);
        if (memory != NULL)
            most += try;
        free(memory);
    }
    CHECK(most >= 16 * 1024 - 32 && most < 16 * 1024);
    for (int i = 0; i < STEPS; i++)
        step((int)draw(PIECES));
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i].memory != NULL)
            check(i, pieces[i].size);
        free(pieces[i].memory);
    }
    CHECK(refused > 10 && moved > 10);
    void *volatile all = malloc(most), *volatile more = malloc(1);
    CHECK(all != NULL && more == NULL);
    free(all);
    all = malloc(SIZE_MAX);
    more = calloc(1 << 20, 1 << 20);
    CHECK(all == NULL && more == NULL);
    all = realloc(NULL, 0);
    more = malloc(0);
    CHECK(all != NULL && more != NULL && all != more);
    return 0;
}
