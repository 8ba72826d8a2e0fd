/* A team of cores: of a cluster, or the only core there is. */
#ifndef XP_TEAM_H
#define XP_TEAM_H

#include <stdint.h>
#include <xp_config.h>

#ifdef XP_CLUSTER
#include <xp_cluster.h>
#else
#include <stdlib.h>
#include <xpulpnn_rt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XP_CORES 1

static inline unsigned xp_core(void) { return xp_hart_id() & 31; }

/* One core waits for nobody. */
static inline void xp_barrier(void) { __asm__ volatile("" : : : "memory"); }
static inline void xp_critical_enter(void) { __asm__ volatile("" : : : "memory"); }
static inline void xp_critical_exit(void) { __asm__ volatile("" : : : "memory"); }

static inline void xp_fork(unsigned cores, void (*function)(void *), void *argument) {
    (void)cores;
    function(argument);
}
static inline unsigned xp_team_cores(void) { return 1; }

/* As the timer of a cluster, made of mcycle. */
void xp_timer_start(void);
void xp_timer_stop(void);
void xp_timer_reset(void);
uint32_t xp_timer_count(void);

static inline void *xp_l1_malloc(uint32_t size) { return malloc(size); }
static inline void xp_l1_free(void *memory) { free(memory); }

#ifdef __cplusplus
}
#endif
#endif

#endif
