/* What the C library needs where several cores call it: locks, and lines of output of their own. On one core nothing. */
#ifndef XP_LOCKS_H
#define XP_LOCKS_H

#include <xp_config.h>
#include <xp_team.h>

enum { XP_LOCK_HOST, XP_LOCK_HEAP, XP_LOCK_L1_HEAP, XP_LOCK_ATOMIC, XP_LOCKS };

#ifdef XP_CLUSTER
enum { XP_CALLERS = XP_CORES };
#define XP_CALLER xp_core()
extern volatile uint32_t xp_locks[XP_LOCKS]; /* in the TCDM */
#define xp_lock(number) xp_spin_lock(&xp_locks[number])
#define xp_unlock(number) xp_spin_unlock(&xp_locks[number])
void xp_cluster_check(void);
void xp_cluster_end(uint32_t code);
#else
enum { XP_CALLERS = 1 };
#define XP_CALLER 0u
#define xp_lock(number) ((void)0)
#define xp_unlock(number) ((void)0)
#define xp_cluster_check() ((void)0)
#define xp_cluster_end(code) ((void)(code))
#endif

#endif
