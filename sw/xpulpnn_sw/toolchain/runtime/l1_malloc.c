/* The heap in the TCDM: what stacks and placed data leave of it. */

#include <xp_team.h>

#ifdef XP_CLUSTER
#include "heap.h"
#include "locks.h"

extern char __l1_heap_start[], __l1_heap_end[];

__attribute__((section(".data_l1"))) static struct heap heap = {.begin = __l1_heap_start, .end = __l1_heap_end};

void *xp_l1_malloc(uint32_t size) {
    xp_lock(XP_LOCK_L1_HEAP);
    void *memory = heap_take(&heap, size);
    xp_unlock(XP_LOCK_L1_HEAP);
    return memory;
}

void xp_l1_free(void *memory) {
    xp_lock(XP_LOCK_L1_HEAP);
    heap_give(&heap, memory);
    xp_unlock(XP_LOCK_L1_HEAP);
}
#endif
