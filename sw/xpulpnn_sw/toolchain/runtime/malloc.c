/* malloc and its kin, and the heap in the TCDM: what stacks and placed data leave of it. */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xp_team.h>

#include "heap.h"
#include "locks.h"

#ifndef XP_HEAP_SIZE
#define XP_HEAP_SIZE 0x100000
#endif
#define TEXT(words) #words
#define TEXT_OF(macro) TEXT(macro)

/* Not cleared at the start, and left out where nothing calls malloc. */
__asm__(".pushsection .heap,\"aw\",@nobits\n"
        "\t.balign 16\n"
        "xp_heap:\n"
        "\t.zero " TEXT_OF(XP_HEAP_SIZE) "\n"
        "xp_heap_end:\n"
        "\t.popsection");
extern char xp_heap[], xp_heap_end[];

static struct heap heap = {.begin = xp_heap, .end = xp_heap_end};

__attribute__((weak, noinline)) void *malloc(size_t size) {
    xp_lock(XP_LOCK_HEAP);
    void *memory = heap_take(&heap, size);
    xp_unlock(XP_LOCK_HEAP);
    return memory;
}

__attribute__((weak, noinline)) void free(void *memory) {
    xp_lock(XP_LOCK_HEAP);
    heap_give(&heap, memory);
    xp_unlock(XP_LOCK_HEAP);
}

__attribute__((weak)) void *calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    void *memory = malloc(total);
    return memory == NULL ? NULL : memset(memory, 0, total);
}

__attribute__((weak)) void *realloc(void *memory, size_t size) {
    if (memory == NULL)
        return malloc(size);
    xp_lock(XP_LOCK_HEAP);
    size_t room = bytes(of(memory)) - HEADER;
    void *resized = heap_resize(&heap, memory, size);
    xp_unlock(XP_LOCK_HEAP);
    if (resized != NULL)
        return resized;
    void *moved = malloc(size);
    if (moved == NULL)
        return NULL;
    /* larger, or it had not been moved */
    memcpy(moved, memory, room);
    free(memory);
    return moved;
}

/* Every block is aligned to 16 bytes; for a larger alignment the front of a block is cut off. */
__attribute__((weak)) void *aligned_alloc(size_t alignment, size_t size) {
    if (alignment <= ALIGNMENT)
        return malloc(size);
    if (size > SIZE_MAX - alignment)
        return NULL;
    xp_lock(XP_LOCK_HEAP);
    char *memory = heap_take(&heap, size + alignment);
    size_t front = memory == NULL ? 0 : -(uintptr_t)memory % alignment;
    if (front != 0) {
        struct block *block = of(memory), *aligned = of(memory + front);
        size_t rest = bytes(block) - front;
        set_size(block, front, USED);
        set_size(aligned, rest, USED);
        heap_give(&heap, memory);
        memory += front;
    }
    xp_unlock(XP_LOCK_HEAP);
    return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = aligned_alloc(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

#ifdef XP_CLUSTER
extern char __l1_heap_start[], __l1_heap_end[];

__attribute__((section(".data_l1.heap"))) static struct heap l1_heap = {.begin = __l1_heap_start, .end = __l1_heap_end};

void *xp_l1_malloc(uint32_t size) {
    xp_lock(XP_LOCK_L1_HEAP);
    void *memory = heap_take(&l1_heap, size);
    xp_unlock(XP_LOCK_L1_HEAP);
    return memory;
}

void xp_l1_free(void *memory) {
    xp_lock(XP_LOCK_L1_HEAP);
    heap_give(&l1_heap, memory);
    xp_unlock(XP_LOCK_L1_HEAP);
}
#endif
