/* The few things of the PULP runtimes that kernel libraries use, on one bare core: its number, barriers, copies by DMA,
   placement of data. With it PULP-NN sources compile as they are. */
#ifndef PMSIS_H
#define PMSIS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pulp_builtins.h"

#ifndef NUM_CORES
#define NUM_CORES 1
#endif

#define __builtin_pulp_CoreCount() NUM_CORES

/* One memory holds everything. */
#define PI_L1
#define PI_L2
#define PI_CL_L1
#define RT_L1_DATA
#define RT_L2_DATA
#define L1_DATA
#define L2_DATA

static inline int pi_core_id(void) { return __builtin_pulp_CoreId(); }
static inline int pi_cluster_id(void) { return __builtin_pulp_ClusterId(); }
static inline int pi_cl_team_nb_cores(void) { return NUM_CORES; }
#define rt_core_id() pi_core_id()
#define get_core_id() pi_core_id()
#define rt_cluster_id() pi_cluster_id()
#define get_cluster_id() pi_cluster_id()

/* One core waits for nobody. */
#define pi_cl_team_barrier(...) __asm__ volatile("" : : : "memory")
#define rt_team_barrier(...) pi_cl_team_barrier()
#define synch_barrier(...) pi_cl_team_barrier()

/* Copies are complete when the call returns. */
typedef enum { PI_CL_DMA_DIR_LOC2EXT = 0, PI_CL_DMA_DIR_EXT2LOC = 1 } pi_cl_dma_dir_e;
typedef struct {
    uint32_t ext;
    uint32_t loc;
    uint32_t size;
    int dir;
    int merge;
    int id;
    uint32_t stride;
    uint32_t length;
} pi_cl_dma_copy_t;

static inline void pi_cl_dma_memcpy(pi_cl_dma_copy_t *copy) {
    void *ext = (void *)(uintptr_t)copy->ext, *loc = (void *)(uintptr_t)copy->loc;
    memcpy(copy->dir ? loc : ext, copy->dir ? ext : loc, copy->size);
}
static inline void pi_cl_dma_wait(pi_cl_dma_copy_t *copy) { (void)copy; }

#endif
