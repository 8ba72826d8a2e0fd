/* Copies between the TCDM (loc) and memory outside (ext), with the calls for the DMA of a cluster. The core that calls
   makes the copy itself: it is complete when the call returns, and waiting is free. */
#ifndef XP_DMA_H
#define XP_DMA_H

#include <stdint.h>
#include <string.h>

typedef enum { PI_CL_DMA_DIR_LOC2EXT = 0, PI_CL_DMA_DIR_EXT2LOC = 1 } pi_cl_dma_dir_e;
typedef struct {
    uint32_t ext;
    uint32_t loc;
    uint32_t size; /* bytes altogether */
    int dir;
    int merge;
    int id;
    uint32_t stride; /* bytes from one line to the next, outside */
    uint32_t length; /* bytes of a line */
} pi_cl_dma_copy_t;
typedef pi_cl_dma_copy_t pi_cl_dma_copy_2d_t;
typedef struct {
    int id;
} pi_cl_dma_cmd_t;

static inline void xp_dma_lines(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, int dir) {
    while (size != 0) {
        uint32_t line = size < length ? size : length;
        void *outside = (void *)(uintptr_t)ext, *inside = (void *)(uintptr_t)loc;
        memcpy(dir ? inside : outside, dir ? outside : inside, line);
        ext += stride;
        loc += line;
        size -= line;
    }
}

static inline void pi_cl_dma_memcpy(pi_cl_dma_copy_t *copy) {
    xp_dma_lines(copy->ext, copy->loc, copy->size, 0, copy->size, copy->dir);
}
static inline void pi_cl_dma_memcpy_2d(pi_cl_dma_copy_2d_t *copy) {
    xp_dma_lines(copy->ext, copy->loc, copy->size, copy->stride, copy->length, copy->dir);
}
static inline void pi_cl_dma_wait(void *copy) {
    (void)copy;
    __asm__ volatile("" : : : "memory");
}
static inline void pi_cl_dma_flush(void) { __asm__ volatile("" : : : "memory"); }

static inline void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd) {
    cmd->id = 0;
    xp_dma_lines(ext, loc, size, 0, size, dir);
}
static inline void pi_cl_dma_cmd_2d(
    uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd
) {
    cmd->id = 0;
    xp_dma_lines(ext, loc, size, stride, length, dir);
}
static inline void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd) { pi_cl_dma_wait(cmd); }

#endif
