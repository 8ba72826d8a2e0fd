/* Atomic operations of memory: compilers call these functions, as the core has no such instructions. Nothing interrupts
 * an operation, and in a cluster only one core is in one. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "locks.h"

static inline uint32_t enter(void) {
    uint32_t status;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(status) : : "memory");
    xp_lock(XP_LOCK_ATOMIC);
    return status;
}

static inline void leave(uint32_t status) {
    xp_unlock(XP_LOCK_ATOMIC);
    __asm__ volatile("csrs mstatus, %0" : : "r"(status & 8) : "memory"); /* MIE as before */
}

#define ALONE(statements) \
    uint32_t status = enter(); \
    statements; \
    leave(status);

/* Compilers declare the names otherwise themselves; arguments that follow, such as orders of memory, are not looked at. */
#define CALLED(name, result, own, ...) \
    result own(__VA_ARGS__) __asm__(name); \
    result own(__VA_ARGS__)

#define CHANGE(type, bytes, own, name, old_name, after) \
    CALLED("__atomic_" name "_" #bytes, type, own##bytes, volatile type *place, type operand) { \
        ALONE(type before = *place; *place = (type)(after)) \
        return before; \
    } \
    extern __typeof(own##bytes) own##bytes##_old __asm__("__sync_" old_name "_" #bytes) \
        __attribute__((alias("__atomic_" name "_" #bytes)));

#define SIZE(type, bytes) \
    CHANGE(type, bytes, xp_atomic_add, "fetch_add", "fetch_and_add", before + operand) \
    CHANGE(type, bytes, xp_atomic_sub, "fetch_sub", "fetch_and_sub", before - operand) \
    CHANGE(type, bytes, xp_atomic_and, "fetch_and", "fetch_and_and", before & operand) \
    CHANGE(type, bytes, xp_atomic_or, "fetch_or", "fetch_and_or", before | operand) \
    CHANGE(type, bytes, xp_atomic_xor, "fetch_xor", "fetch_and_xor", before ^ operand) \
    CHANGE(type, bytes, xp_atomic_nand, "fetch_nand", "fetch_and_nand", ~(before & operand)) \
    CHANGE(type, bytes, xp_atomic_set, "exchange", "lock_test_and_set", operand) \
    CALLED("__atomic_store_" #bytes, void, xp_atomic_store##bytes, volatile type *place, type operand) { \
        ALONE(*place = operand) \
    } \
    CALLED("__atomic_load_" #bytes, type, xp_atomic_load##bytes, const volatile type *place) { \
        ALONE(type now = *place) \
        return now; \
    } \
    CALLED("__sync_val_compare_and_swap_" #bytes, type, xp_atomic_swap##bytes, volatile type *place, type old, type new) { \
        ALONE(type before = *place; if (before == old) *place = new) \
        return before; \
    } \
    CALLED("__sync_bool_compare_and_swap_" #bytes, bool, xp_atomic_same##bytes, volatile type *place, type old, type new) { \
        return xp_atomic_swap##bytes(place, old, new) == old; \
    } \
    CALLED("__atomic_compare_exchange_" #bytes, bool, xp_atomic_test##bytes, volatile type *place, type *old, type new) { \
        type expected = *old; \
        *old = xp_atomic_swap##bytes(place, expected, new); \
        return *old == expected; \
    }

SIZE(uint8_t, 1)
SIZE(uint16_t, 2)
SIZE(uint32_t, 4)
SIZE(uint64_t, 8)

CALLED("__atomic_load", void, xp_atomic_load, size_t size, const void *place, void *to) { ALONE(memcpy(to, place, size)) }

CALLED("__atomic_store", void, xp_atomic_store, size_t size, void *place, const void *from) {
    xp_atomic_load(size, from, place);
}

CALLED("__atomic_exchange", void, xp_atomic_set, size_t size, char *place, const char *from, char *to) {
    ALONE(for (size_t at = 0; at < size; ++at) { char new = from[at]; to[at] = place[at]; place[at] = new; })
}

CALLED("__atomic_compare_exchange", bool, xp_atomic_test, size_t size, void *place, void *old, const void *new) {
    ALONE(bool same = memcmp(place, old, size) == 0; memcpy(same ? place : old, same ? new : place, size))
    return same;
}

CALLED("__atomic_is_lock_free", bool, xp_atomic_is_lock_free, void) { return false; }
