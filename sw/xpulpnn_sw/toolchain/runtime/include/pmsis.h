/* What kernel libraries and their test programs use of the PULP runtimes, on a cluster (xpulpnn cc --cluster) or on one
   bare core. With it PULP-NN sources compile as they are. There is no fabric controller: core 0 of the cluster runs
   main, and a task that is sent to the cluster is called at once. */
#ifndef PMSIS_H
#define PMSIS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pulp_builtins.h"
#include "xp_team.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef NUM_CORES
#define NUM_CORES XP_CORES
#endif
#if defined(XP_CLUSTER) && NUM_CORES > XP_CORES
#error "NUM_CORES must be at most the cores of the cluster (xpulpnn cc --cores)"
#endif

#define __builtin_pulp_CoreCount() NUM_CORES

/* Placement. What says nothing is in the L2. */
#ifdef XP_CLUSTER
#define PI_L1 __attribute__((section(".data_l1")))
#else
#define PI_L1
#endif
#define PI_L2
#define PI_CL_L1 PI_L1
#define PI_CL_L1_TINY PI_L1
#define PI_FC_L1

/* Cores. */
static inline int pi_core_id(void) { return __builtin_pulp_CoreId(); }
static inline int pi_cluster_id(void) { return __builtin_pulp_ClusterId(); }
static inline int pi_is_fc(void) { return 0; }
static inline int pi_cl_cluster_nb_cores(void) { return XP_CORES; }
static inline int pi_cl_cluster_nb_pe_cores(void) { return XP_CORES; }

/* Teams: core 0 forks, itself included; 0 cores are all. */
static inline int pi_cl_team_nb_cores(void) { return (int)xp_team_cores(); }
static inline void pi_cl_team_fork(int cores, void (*entry)(void *), void *argument) {
    xp_fork((unsigned)cores, entry, argument);
}
#define pi_cl_team_barrier(...) xp_barrier()
#define pi_cl_team_critical_enter() xp_critical_enter()
#define pi_cl_team_critical_exit() xp_critical_exit()

/* Opening a cluster and giving it work. Stacks have the sizes given to cc, not those of a task. */
typedef struct pi_device { void *config; } pi_device_t;
struct pi_cluster_conf {
    int device_type, id;
    void *heap_start;
    uint32_t heap_size, cc_stack_size;
};
struct pi_cluster_task {
    void (*entry)(void *);
    void *arg, *stacks;
    uint32_t stack_size, slave_stack_size;
    int nb_cores;
};
typedef struct pi_cluster_conf pi_cluster_conf_t;
typedef struct pi_cluster_task pi_cluster_task_t;
typedef struct { void (*callback)(void *); void *argument; } pi_task_t;

static inline void pi_cluster_conf_init(struct pi_cluster_conf *conf) { memset(conf, 0, sizeof *conf); }
static inline void pi_open_from_conf(struct pi_device *device, void *conf) { device->config = conf; }
#define pi_cluster_open(device) ((void)(device), 0)
#define pi_cluster_close(device) ((void)(device), 0)
static inline struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg) {
    memset(task, 0, sizeof *task);
    task->entry = entry;
    task->arg = arg;
    return task;
}
static inline int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task) {
    (void)device;
    task->entry(task->arg);
    return 0;
}
#define pi_cluster_send_task(device, task) pi_cluster_send_task_to_cl(device, task)

static inline pi_task_t *pi_task_callback(pi_task_t *task, void (*callback)(void *), void *argument) {
    task->callback = callback;
    task->argument = argument;
    return task;
}
#define pi_task_block(task) pi_task_callback(task, NULL, NULL)
static inline void pi_task_wait_on(pi_task_t *task) { (void)task; }
static inline int pi_cluster_send_task_to_cl_async(struct pi_device *device, struct pi_cluster_task *task, pi_task_t *done) {
    int result = pi_cluster_send_task_to_cl(device, task);
    if (done->callback != NULL)
        done->callback(done->argument);
    return result;
}
#define pi_cluster_send_task_async(device, task, done) pi_cluster_send_task_to_cl_async(device, task, done)

/* The program as a whole: the kickoff function is called at once. */
static inline int pmsis_kickoff(void *kickoff) {
    ((void (*)(void))(uintptr_t)kickoff)();
    return 0;
}
#define pmsis_exit(code) exit(code)

/* There is one clock, which software cannot set. */
enum { PI_FREQ_DOMAIN_FC, PI_FREQ_DOMAIN_CL, PI_FREQ_DOMAIN_PERIPH };
#define pi_freq_set(domain, hertz) 0

/* Memory: the TCDM beside stacks and placed data, and the heap of the C library in the L2. */
#define pi_l1_malloc(cluster, size) xp_l1_malloc(size)
#define pi_cl_l1_malloc(cluster, size) xp_l1_malloc(size)
#define pmsis_l1_malloc(size) xp_l1_malloc(size)
#define pi_l1_free(cluster, memory, size) xp_l1_free(memory)
#define pi_cl_l1_free(cluster, memory, size) xp_l1_free(memory)
#define pmsis_l1_malloc_free(memory, size) xp_l1_free(memory)
#define pi_l2_malloc(size) malloc(size)
#define pi_l2_free(memory, size) free(memory)
#define pmsis_l2_malloc(size) malloc(size)
#define pmsis_l2_malloc_free(memory, size) free(memory)
#define pi_malloc(size) malloc(size)
#define pi_free(memory) free(memory)

/* Counters of the core that calls, by event; cycles are those of the timer, which all cores share. A core without
   performance counters counts active cycles and instructions alone, the others read 0. */
#define XP_PERF_EVENTS(PREFIX)                                                                     \
    PREFIX##ACTIVE_CYCLES, PREFIX##INSTR, PREFIX##LD_STALL, PREFIX##JR_STALL, PREFIX##IMISS, PREFIX##LD, PREFIX##ST, \
    PREFIX##JUMP, PREFIX##BRANCH, PREFIX##BTAKEN, PREFIX##RVC, PREFIX##ELW, PREFIX##LD_EXT, PREFIX##ST_EXT, \
    PREFIX##LD_EXT_CYC, PREFIX##ST_EXT_CYC, PREFIX##TCDM_CONT, PREFIX##CYCLES
enum { XP_PERF_EVENTS(PI_PERF_) };
void pi_perf_conf(uint32_t events);
void pi_perf_reset(void);
void pi_perf_start(void);
void pi_perf_stop(void);
uint32_t pi_perf_read(int event);
#define pi_perf_cl_reset() pi_perf_reset()
#define pi_perf_cl_start() pi_perf_start()
#define pi_perf_cl_stop() pi_perf_stop()
#define pi_perf_cl_read(event) pi_perf_read(event)

#ifdef __cplusplus
}
#endif

#include "xp_dma.h"
#include "xp_rt_names.h"

#endif
