/* A heap: blocks side by side, each with its own size and that of the one below, so that neighbours can be joined. */
#ifndef XP_HEAP_H
#define XP_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ALIGNMENT = 16, HEADER = 8, USED = 1 };

struct block {
    size_t below; /* bytes of the block below, 0 in the first one */
    size_t size;  /* bytes up to the next block, with USED */
};

struct heap {
    char *begin, *end;          /* multiples of the alignment */
    struct block *lowest_free;  /* NULL before the first use */
};

static inline size_t bytes(const struct block *block) { return block->size & ~(size_t)USED; }
static inline struct block *next(struct block *block) { return (struct block *)((char *)block + bytes(block)); }
static inline struct block *of(void *memory) { return (struct block *)((char *)memory - HEADER); }
static inline int is_free(const struct block *block) { return (block->size & USED) == 0; }

static inline void set_size(struct block *block, size_t size, size_t used) {
    block->size = size | used;
    next(block)->below = size;
}

static inline void heap_start(struct heap *heap) {
    /* what is handed out lies behind the header, at a multiple of the alignment; the last block is empty */
    struct block *first = (struct block *)(heap->begin + ALIGNMENT - HEADER);
    size_t size = (size_t)(heap->end - (char *)first - HEADER) & ~(size_t)(ALIGNMENT - 1);
    first->below = 0;
    set_size(first, size, 0);
    next(first)->size = USED;
    heap->lowest_free = first;
}

/* Bytes of a block for `size` bytes; 0 if there cannot be one. */
static inline size_t needed(const struct heap *heap, size_t size) {
    size_t limit = (size_t)(heap->end - heap->begin);
    return size > limit ? 0 : (size + HEADER + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static inline void heap_give(struct heap *heap, void *memory) {
    if (memory == NULL)
        return;
    struct block *block = of(memory), *after = next(block);
    size_t size = bytes(block);
    if (is_free(after))
        size += bytes(after);
    struct block *below = (struct block *)((char *)block - block->below);
    if (block->below != 0 && is_free(below)) {
        size += block->below;
        block = below;
    }
    set_size(block, size, 0);
    if (block < heap->lowest_free)
        heap->lowest_free = block;
}

/* Shortens a used block, and makes the rest free. */
static inline void heap_cut(struct heap *heap, struct block *block, size_t size) {
    size_t rest = bytes(block) - size;
    if (rest == 0)
        return;
    set_size(block, size, USED);
    struct block *after = next(block);
    set_size(after, rest, USED);
    heap_give(heap, (char *)after + HEADER);
}

static inline void *heap_take(struct heap *heap, size_t size) {
    if (heap->end - heap->begin < 2 * ALIGNMENT)
        return NULL;
    if (heap->lowest_free == NULL)
        heap_start(heap);
    size_t wanted = needed(heap, size);
    if (wanted == 0)
        return NULL;
    for (struct block *block = heap->lowest_free; bytes(block) != 0; block = next(block)) {
        if (!is_free(block) || bytes(block) < wanted)
            continue;
        set_size(block, bytes(block), USED);
        heap_cut(heap, block, wanted);
        while (!is_free(heap->lowest_free) && bytes(heap->lowest_free) != 0)
            heap->lowest_free = next(heap->lowest_free);
        return (char *)block + HEADER;
    }
    return NULL;
}

/* Makes a used block larger or smaller; NULL: there is no room behind it. */
static inline void *heap_resize(struct heap *heap, void *memory, size_t size) {
    struct block *block = of(memory), *after = next(block);
    size_t wanted = needed(heap, size), room = bytes(block);
    if (wanted == 0)
        return NULL;
    if (room < wanted && is_free(after) && room + bytes(after) >= wanted) {
        room += bytes(after);
        /* the lowest free block may be the one that is taken; the search starts again below */
        if (heap->lowest_free == after)
            heap->lowest_free = block;
        set_size(block, room, USED);
    }
    if (room < wanted)
        return NULL;
    heap_cut(heap, block, wanted);
    return memory;
}

#endif
