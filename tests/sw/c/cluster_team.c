/* Teams, barriers, locks, events and memory of a cluster with any number of cores, by results that are known. Returns
 * the line of the first check that fails.
 */
#include "check.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xp_cluster.h>

#define L1 __attribute__((section(".data_l1")))

enum { ROUNDS = 5, PHASES = 6 };

static L1 volatile uint32_t visits[16], counter, lock, flag, payload;
static L1 volatile uint8_t stages[PHASES][16];
static volatile uint32_t in_l2[16];

/* Sum of 1..n. */
static uint32_t triangle(uint32_t n) { return n * (n + 1) / 2; }

static void visit(void *argument) {
    visits[xp_core()] += (uint32_t)(uintptr_t)argument;
    in_l2[xp_core()] += 1;
}

static void teams(void) {
    uint32_t expected[16] = {0}, forks = 0;
    for (unsigned size = 0; size <= XP_CORES; ++size) {
        unsigned cores = size == 0 ? XP_CORES : size;
        xp_fork(size, visit, (void *)(uintptr_t)(size + 3));
        CHECK(xp_team_cores() == cores);
        forks += 1;
        for (unsigned core = 0; core < cores; ++core)
            expected[core] += size + 3;
        for (unsigned core = 0; core < 16; ++core)
            CHECK(visits[core] == expected[core]);
    }
    CHECK(in_l2[0] == forks && in_l2[XP_CORES - 1] == 2);
}

/* Nobody is past a barrier before all have come to it. The later cores take longer in even phases. */
static void phase(void *argument) {
    unsigned core = xp_core();
    (void)argument;
    for (unsigned step = 0; step < PHASES; ++step) {
        for (volatile unsigned delay = 0; delay < 3 * (step % 2 ? XP_CORES - core : core); ++delay) {
        }
        stages[step][core] = (uint8_t)(core + 1);
        xp_barrier();
        for (unsigned other = 0; other < XP_CORES; ++other)
            CHECK(stages[step][other] == other + 1);
    }
}

static void count_locked(void *argument) {
    for (unsigned round = 0; round < ROUNDS; ++round) {
        if (argument != NULL) {
            xp_spin_lock(&lock);
        } else {
            xp_critical_enter();
        }
        uint32_t old = counter;
        for (volatile unsigned delay = 0; delay < xp_core(); ++delay) {
        }
        counter = old + xp_core() + 1;
        if (argument != NULL) {
            xp_spin_unlock(&lock);
        } else {
            xp_critical_exit();
        }
    }
}

/* The message of the mutex is handed from core to core. */
static void add_to_message(void *argument) {
    (void)argument;
    for (unsigned round = 0; round < ROUNDS; ++round) {
        uint32_t message = xp_mutex_lock(0);
        xp_mutex_unlock(0, message + xp_core() + 1);
    }
}

/* A flag is raised after what it announces. */
static void pass_message(void *argument) {
    (void)argument;
    if (xp_core() == 0) {
        payload = 4711;
        flag = 1;
    } else {
        while (flag == 0) {
        }
        visits[xp_core()] = payload;
    }
}

/* A token goes round: each core waits for its event and triggers the next one. */
static void pass_token(void *argument) {
    unsigned core = xp_core(), next = (core + 1) % XP_CORES;
    (void)argument;
    xp_event_mask(1u << 3);
    xp_event_unmask(1u << XP_EU_LINE_DISPATCH | 1u << XP_EU_LINE_MUTEX);
    xp_barrier();
    for (unsigned round = 0; round < ROUNDS; ++round) {
        if (core != 0 || round != 0)
            CHECK(xp_event_wait() == 1u << 3);
        CHECK(counter % XP_CORES == core);
        counter += 1;
        xp_event_trigger(3, 1u << next);
    }
    if (core == 0)
        CHECK(xp_event_wait() == 1u << 3);
    xp_event_unmask(1u << 3);
    xp_event_mask(1u << XP_EU_LINE_DISPATCH | 1u << XP_EU_LINE_MUTEX);
}

/* Barrier 1 for half of the cores, while the others do without. */
static void half(void *argument) {
    (void)argument;
    if (xp_core() >= (XP_CORES + 1) / 2)
        return;
    visits[xp_core()] = 1;
    xp_barrier_wait(1);
    for (unsigned other = 0; other < (XP_CORES + 1) / 2; ++other)
        CHECK(visits[other] == 1);
}

static void views(void) {
    volatile uint32_t *plain = &payload, *alias = (volatile uint32_t *)((uintptr_t)&payload - XP_TCDM);
    *plain = 0x12345678;
    CHECK(*alias == 0x12345678);
    *alias = 9;
    CHECK(*plain == 9);
    CHECK(xp_test_set(plain) == 9 && *plain == 0xFFFFFFFFu);
    *plain = 0x11223344;
    volatile uint8_t *byte = (volatile uint8_t *)((uintptr_t)plain | 1u << XP_TEST_SET_BIT);
    CHECK(byte[1] == 0x33 && *plain == 0x1122FF44);
    byte[2] = 0x77;
    CHECK(*plain == 0x1177FF44);
}

static void timer(void) {
    xp_timer_stop();
    xp_timer_reset();
    CHECK(xp_timer_count() == 0);
    xp_timer_start();
    uint32_t first = xp_timer_count(), second = xp_timer_count();
    CHECK(first < 20 && second > first && second - first < 20);
    xp_timer_stop();
    CHECK(xp_timer_count() == xp_timer_count());
    /* an event of the timer, waited for */
    xp_eu_write(XP_EU_MASK_AND, ~0u);
    xp_event_mask(1u << XP_EU_LINE_TIMER_LOW);
    xp_timer_reset();
    XP_REGISTER(XP_TIMER, XP_TIMER_COMPARE_LOW) = 500;
    XP_REGISTER(XP_TIMER, XP_TIMER_CONFIG_LOW) = 1u << 0 | 1u << 2 | 1u << 5;
    CHECK(xp_event_wait() == 1u << XP_EU_LINE_TIMER_LOW);
    CHECK(XP_REGISTER(XP_TIMER, XP_TIMER_COUNT_LOW) == 501);
    xp_event_unmask(1u << XP_EU_LINE_TIMER_LOW);
    xp_event_mask(1u << XP_EU_LINE_BARRIER | 1u << XP_EU_LINE_MUTEX | 1u << XP_EU_LINE_DISPATCH);
}

static void print(void *argument) {
    char line[16];
    snprintf(line, sizeof line, "%s %u", (const char *)argument, xp_core());
    puts(line);
}

static void allocate(void *argument) {
    void **blocks = argument;
    blocks[xp_core()] = xp_l1_malloc(40 + xp_core());
    memset(blocks[xp_core()], (int)xp_core(), 40 + xp_core());
    free(malloc(24));
}

int main(void) {
    CHECK(xp_core() == 0);
    teams();
    xp_fork(0, phase, NULL);
    counter = 0;
    xp_fork(0, count_locked, NULL);
    CHECK(counter == ROUNDS * triangle(XP_CORES));
    counter = 0;
    xp_fork(0, count_locked, main);
    CHECK(counter == ROUNDS * triangle(XP_CORES) && lock == 0);
    (void)xp_mutex_lock(0);
    xp_mutex_unlock(0, 100);
    xp_fork(0, add_to_message, NULL);
    CHECK(xp_mutex_lock(0) == 100 + ROUNDS * triangle(XP_CORES));
    xp_mutex_unlock(0, 0);
    xp_fork(0, pass_message, NULL);
    for (unsigned core = 1; core < XP_CORES; ++core)
        CHECK(visits[core] == 4711);
    counter = 0;
    xp_fork(0, pass_token, NULL);
    CHECK(counter == ROUNDS * XP_CORES);
    xp_barrier_set(1, (1u << (XP_CORES + 1) / 2) - 1);
    xp_fork(0, half, NULL);
    views();
    timer();
    void *blocks[16];
    xp_fork(0, allocate, blocks);
    for (unsigned core = 0; core < XP_CORES; ++core) {
        CHECK(((uintptr_t)blocks[core] & 15) == 0);
        for (unsigned i = 0; i < 40 + core; ++i)
            CHECK(((uint8_t *)blocks[core])[i] == core);
        xp_l1_free(blocks[core]);
    }
    CHECK(xp_l1_malloc(XP_TCDM_BYTES) == NULL);
    xp_fork(0, print, "core");
    return 0;
}
