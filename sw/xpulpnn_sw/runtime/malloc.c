/* The heap: blocks side by side, each with its own size and that of the one below, so that neighbours can be joined. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

enum { ALIGNMENT = 16, HEADER = 8, USED = 1 };

struct block {
    size_t below; /* bytes of the block below, 0 in the first one */
    size_t size;  /* bytes up to the next block, with USED */
};

static struct block *lowest_free;

static inline size_t bytes(const struct block *block) { return block->size & ~(size_t)USED; }
static inline struct block *next(struct block *block) { return (struct block *)((char *)block + bytes(block)); }
static inline struct block *of(void *memory) { return (struct block *)((char *)memory - HEADER); }
static inline int is_free(const struct block *block) { return (block->size & USED) == 0; }

static void set_size(struct block *block, size_t size, size_t used) {
    block->size = size | used;
    next(block)->below = size;
}

static void start(void) {
    /* what is handed out lies behind the header, at a multiple of the alignment; the last block is empty */
    struct block *first = (struct block *)(xp_heap + ALIGNMENT - HEADER);
    size_t size = (size_t)(xp_heap_end - (char *)first - HEADER) & ~(size_t)(ALIGNMENT - 1);
    first->below = 0;
    set_size(first, size, 0);
    next(first)->size = USED;
    lowest_free = first;
}

/* Bytes of a block for `size` bytes; 0 if there cannot be one. */
static size_t needed(size_t size) {
    size_t limit = (size_t)(xp_heap_end - xp_heap);
    return size > limit ? 0 : (size + HEADER + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Shortens a used block, and makes the rest free. */
static void cut(struct block *block, size_t size) {
    size_t rest = bytes(block) - size;
    if (rest == 0)
        return;
    set_size(block, size, USED);
    struct block *after = next(block);
    set_size(after, rest, USED);
    free((char *)after + HEADER);
}

__attribute__((weak, noinline)) void *malloc(size_t size) {
    if (lowest_free == NULL)
        start();
    size_t wanted = needed(size);
    if (wanted == 0)
        return NULL;
    for (struct block *block = lowest_free; bytes(block) != 0; block = next(block)) {
        if (!is_free(block) || bytes(block) < wanted)
            continue;
        size_t rest = bytes(block) - wanted;
        set_size(block, wanted, USED);
        if (rest != 0) {
            set_size(next(block), rest, 0);
        }
        while (lowest_free <= block && !is_free(lowest_free) && bytes(lowest_free) != 0)
            lowest_free = next(lowest_free);
        return (char *)block + HEADER;
    }
    return NULL;
}

__attribute__((weak, noinline)) void free(void *memory) {
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
    if (block < lowest_free)
        lowest_free = block;
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
    struct block *block = of(memory), *after = next(block);
    size_t wanted = needed(size), room = bytes(block);
    if (wanted == 0)
        return NULL;
    if (room < wanted && is_free(after) && room + bytes(after) >= wanted) {
        room += bytes(after);
        /* the lowest free block may be the one that is taken; the search starts again below */
        if (lowest_free == after)
            lowest_free = block;
        set_size(block, room, USED);
    }
    if (room >= wanted) {
        cut(block, wanted);
        return memory;
    }
    void *moved = malloc(size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, memory, room - HEADER);
    free(memory);
    return moved;
}
