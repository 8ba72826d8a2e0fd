/* The cluster without any PULP runtime: event unit, barriers, locks, teams, timer. Addresses are in xp_cluster_map.h. */
#ifndef XP_CLUSTER_H
#define XP_CLUSTER_H

#include <stdint.h>
#include <xp_cluster_map.h>
#include <xpulpnn.h>
#include <xpulpnn_rt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XP_REGISTER(block, offset) (*(volatile uint32_t *)((block) + (offset)))

/* A register of the core's own view of the event unit. Reading one that waits holds the core until its event: the
   offset must be a constant. Whatever waits is a macro, so that a core that never gets on stands at a line of the program. */
#ifdef XP_HAVE_XPULPV2
#define xp_eu_wait(offset) ((uint32_t)xp_elw(XP_EVENT_UNIT, offset))
#else
#define xp_eu_wait(offset) XP_REGISTER(XP_EVENT_UNIT, offset)
#endif
static inline uint32_t xp_eu_read(unsigned offset) { return XP_REGISTER(XP_EVENT_UNIT, offset); }
static inline void xp_eu_write(unsigned offset, uint32_t value) {
    __asm__ volatile("" : : : "memory");
    XP_REGISTER(XP_EVENT_UNIT, offset) = value;
}

static inline unsigned xp_core(void) { return xp_hart_id() & 31; }

/* Barrier of the team of the last fork, which is hardware barrier 0; others are the program's. */
#define XP_BARRIER_OFFSET(barrier, name) (XP_EU_BARRIER + XP_EU_BARRIER_BYTES * (barrier) + XP_EU_BARRIER_##name)
#define xp_barrier() xp_barrier_wait(0)
#define xp_barrier_wait(barrier) ((void)xp_eu_wait(XP_BARRIER_OFFSET(barrier, TRIGGER_WAIT_CLEAR)))
/* The cores of the mask wait for each other. */
static inline void xp_barrier_set(unsigned barrier, uint32_t cores) {
    xp_eu_write(XP_BARRIER_OFFSET(barrier, TRIGGER_MASK), cores);
    xp_eu_write(XP_BARRIER_OFFSET(barrier, TARGET_MASK), cores);
}

/* Mutex of the event unit; the lock returns the message of the unlock before it. The number must be a constant. */
#define xp_mutex_lock(mutex) xp_eu_wait(XP_EU_MUTEX + 4 * (mutex))
static inline void xp_mutex_unlock(unsigned mutex, uint32_t message) { xp_eu_write(XP_EU_MUTEX + 4 * mutex, message); }

/* Mutex 0. */
#define xp_critical_enter() ((void)xp_mutex_lock(0))
static inline void xp_critical_exit(void) { xp_mutex_unlock(0, 0); }

/* Software events 0..7 are the event lines 0..7. A core waits for any line of its mask and clears them. */
static inline void xp_event_mask(uint32_t lines) { xp_eu_write(XP_EU_MASK_OR, lines); }
static inline void xp_event_unmask(uint32_t lines) { xp_eu_write(XP_EU_MASK_AND, lines); }
static inline void xp_event_trigger(unsigned event, uint32_t cores) { xp_eu_write(XP_EU_SW_TRIGGER + 4 * event, cores); }
#define xp_event_wait() xp_eu_wait(XP_EU_WAIT_CLEAR)

/* Old value of a word of the TCDM, which becomes all ones. */
static inline uint32_t xp_test_set(volatile uint32_t *word) {
    return *(volatile uint32_t *)((uintptr_t)word | 1u << XP_TEST_SET_BIT);
}
/* A lock in the TCDM: 0 is free. */
static inline void xp_spin_lock(volatile uint32_t *lock) {
    while (xp_test_set(lock) != 0) {
    }
    __asm__ volatile("" : : : "memory");
}
static inline void xp_spin_unlock(volatile uint32_t *lock) {
    __asm__ volatile("" : : : "memory");
    *lock = 0;
}

/* Core 0 calls function(argument) on the first cores of the cluster, itself included; 0: on all. Returns when all have
   returned. */
void xp_fork(unsigned cores, void (*function)(void *), void *argument);
/* Cores of the last fork; all before the first. */
unsigned xp_team_cores(void);

/* The cluster's 32-bit timer, which all cores share: counts cycles while it runs. */
static inline void xp_timer_start(void) { XP_REGISTER(XP_TIMER, XP_TIMER_START_LOW) = 1; }
static inline void xp_timer_stop(void) { XP_REGISTER(XP_TIMER, XP_TIMER_CONFIG_LOW) = 0; }
static inline void xp_timer_reset(void) { XP_REGISTER(XP_TIMER, XP_TIMER_RESET_LOW) = 1; }
static inline uint32_t xp_timer_count(void) { return XP_REGISTER(XP_TIMER, XP_TIMER_COUNT_LOW); }

/* Memory of the TCDM beside stacks and what is placed there; NULL: there is not enough left. */
void *xp_l1_malloc(uint32_t size);
void xp_l1_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
