/* Copies between the TCDM (loc) and memory outside (ext), with the calls for the DMA of a cluster. The engine works while
   the core goes on; the core that began a copy waits for its end. On one bare core the call itself copies. */
#ifndef XP_DMA_H
#define XP_DMA_H

#include <stdint.h>
#include <string.h>

#include "xp_team.h"

typedef enum { PI_CL_DMA_DIR_LOC2EXT = 0, PI_CL_DMA_DIR_EXT2LOC = 1 } pi_cl_dma_dir_e;
typedef struct {
    int id;
    uint32_t ext;
    uint32_t loc;
    uint32_t size; /* bytes altogether */
    int dir;
    int merge; /* with the identifier that this structure has from the copy before, so that one wait is for both */
    uint32_t stride; /* bytes from one line to the next, outside */
    uint32_t length; /* bytes of a line */
} pi_cl_dma_copy_t;
typedef pi_cl_dma_copy_t pi_cl_dma_copy_2d_t;
typedef struct { int id; } pi_cl_dma_cmd_t;

#ifdef XP_CLUSTER
#define XP_DMA_REGISTER(name) XP_REGISTER(XP_DMA, XP_DMA_##name)
enum { XP_DMA_MOST_BYTES = 0x10000 }; /* of one command */

/* An identifier for copies; waits while all are in use. */
static inline int xp_dma_identifier(void) { return (int)XP_DMA_REGISTER(COMMAND); }

/* One command: up to XP_DMA_MOST_BYTES bytes, outside in lines if there are any. */
static inline void xp_dma_command(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, int dir) {
    uint32_t command = size | XP_DMA_INCREMENT | XP_DMA_EVENT;
    __asm__ volatile("" : : : "memory");
    if (dir)
        command |= XP_DMA_FROM_EXTERNAL;
    if (length != 0)
        command |= XP_DMA_EXTERNAL_2D;
    XP_DMA_REGISTER(COMMAND) = command;
    XP_DMA_REGISTER(COMMAND) = loc;
    XP_DMA_REGISTER(COMMAND) = ext;
    if (length != 0) {
        XP_DMA_REGISTER(COMMAND) = length;
        XP_DMA_REGISTER(COMMAND) = stride;
    }
}

/* All bytes in one line, or with a length in lines of so many. */
static inline void xp_dma_copy(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, int dir) {
    uint32_t lines = length == 0 || length >= XP_DMA_MOST_BYTES ? 0 : XP_DMA_MOST_BYTES / length;
    if (length != 0 && lines == 0) {
        /* a line is more than a command */
        for (; size != 0; ext += stride) {
            uint32_t line = size < length ? size : length;
            xp_dma_copy(ext, loc, line, 0, 0, dir);
            loc += line;
            size -= line;
        }
        return;
    }
    while (size != 0) {
        uint32_t most = lines == 0 ? XP_DMA_MOST_BYTES : lines * length, part = size < most ? size : most;
        xp_dma_command(ext, loc, part, stride, length, dir);
        ext += lines == 0 ? part : lines * stride;
        loc += part;
        size -= part;
    }
}

/* Waits for the end of all copies with an identifier, and gives it back. Other events stay what they are. */
static inline void xp_dma_finish(int id) {
    while (XP_DMA_REGISTER(STATUS) >> id & 1) {
        uint32_t mask = xp_eu_read(XP_EU_MASK);
        xp_eu_write(XP_EU_MASK, 1u << XP_EU_LINE_DMA);
        (void)xp_event_wait();
        xp_eu_write(XP_EU_MASK, mask);
    }
    XP_DMA_REGISTER(STATUS) = 1u << id;
    __asm__ volatile("" : : : "memory");
}
/* Waits until nothing is under way, whoever began it. */
static inline void pi_cl_dma_flush(void) {
    while ((XP_DMA_REGISTER(STATUS) & 0xFFFF) != 0) {
    }
    __asm__ volatile("" : : : "memory");
}
#else
static inline int xp_dma_identifier(void) { return 0; }
static inline void xp_dma_copy(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, int dir) {
    if (length == 0)
        length = size;
    while (size != 0) {
        uint32_t line = size < length ? size : length;
        void *outside = (void *)(uintptr_t)ext, *inside = (void *)(uintptr_t)loc;
        memcpy(dir ? inside : outside, dir ? outside : inside, line);
        ext += stride;
        loc += line;
        size -= line;
    }
}
static inline void xp_dma_finish(int id) {
    (void)id;
    __asm__ volatile("" : : : "memory");
}
static inline void pi_cl_dma_flush(void) { __asm__ volatile("" : : : "memory"); }
#endif

static inline void pi_cl_dma_memcpy_2d(pi_cl_dma_copy_2d_t *copy) {
    if (!copy->merge)
        copy->id = xp_dma_identifier();
    xp_dma_copy(copy->ext, copy->loc, copy->size, copy->stride, copy->length, copy->dir);
}
static inline void pi_cl_dma_memcpy(pi_cl_dma_copy_t *copy) {
    if (!copy->merge)
        copy->id = xp_dma_identifier();
    xp_dma_copy(copy->ext, copy->loc, copy->size, 0, 0, copy->dir);
}
/* Of any of the structures. */
static inline void pi_cl_dma_wait(void *copy) { xp_dma_finish(*(const int *)copy); }

static inline void pi_cl_dma_cmd_2d(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length,
                                    pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd) {
    cmd->id = xp_dma_identifier();
    xp_dma_copy(ext, loc, size, stride, length, dir);
}
static inline void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd) {
    pi_cl_dma_cmd_2d(ext, loc, size, 0, 0, dir, cmd);
}
static inline void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd) { pi_cl_dma_wait(cmd); }

#endif
