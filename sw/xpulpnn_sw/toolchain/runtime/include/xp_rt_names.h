/* Names of the older PULP runtimes for what pmsis.h has. */
#ifndef XP_RT_NAMES_H
#define XP_RT_NAMES_H

/* Placement and cores. */
#define RT_L1_DATA PI_L1
#define RT_CL_DATA PI_L1
#define RT_LOCAL_DATA PI_L1
#define RT_L2_DATA
#define RT_FC_SHARED_DATA
#define L1_DATA PI_L1
#define L2_DATA
#define rt_core_id() pi_core_id()
#define get_core_id() pi_core_id()
#define rt_cluster_id() pi_cluster_id()
#define get_cluster_id() pi_cluster_id()
#define rt_is_fc() pi_is_fc()
#define rt_nb_pe() XP_CORES
#define rt_nb_active_pe() XP_CORES
#define get_core_num() XP_CORES

/* Teams. */
#define rt_team_fork(cores, entry, argument) pi_cl_team_fork(cores, (void (*)(void *))(entry), argument)
#define rt_team_barrier(...) xp_barrier()
#define rt_team_nb_cores() pi_cl_team_nb_cores()
#define rt_team_critical_enter() xp_critical_enter()
#define rt_team_critical_exit() xp_critical_exit()
#define synch_barrier(...) xp_barrier()

/* Events and calls of the cluster: a call is complete, and its event raised, when it returns. */
typedef struct { void (*callback)(void *); void *argument; } rt_event_t;
typedef struct { int unused; } rt_event_sched_t;
typedef struct { int id; } rt_cluster_call_t;
#define rt_event_sched_init(scheduler) ((void)(scheduler))
#define rt_event_alloc(scheduler, count) ((void)(scheduler), (void)(count), 0)
static inline rt_event_t *rt_event_get(void *scheduler, void (*callback)(void *), void *argument) {
    (void)scheduler;
    rt_event_t *event = (rt_event_t *)malloc(sizeof *event);
    if (event != NULL)
        *event = (rt_event_t){callback, argument};
    return event;
}
#define rt_event_get_blocking(scheduler) rt_event_get(scheduler, NULL, NULL)
#define rt_event_wait(event) free(event)
#define rt_event_execute(scheduler, wait) ((void)0)
#define rt_cluster_mount(mount, cluster, flags, event) ((void)0)
static inline int rt_cluster_call(rt_cluster_call_t *call, int cluster, void (*entry)(void *), void *argument, void *stacks,
                                  int master_stack_size, int slave_stack_size, int cores, rt_event_t *event) {
    (void)call, (void)cluster, (void)stacks, (void)master_stack_size, (void)slave_stack_size, (void)cores;
    entry(argument);
    if (event != NULL && event->callback != NULL) {
        event->callback(event->argument);
        free(event);
    }
    return 0;
}

/* Memory by kind. */
typedef enum {
    RT_ALLOC_FC_CODE, RT_ALLOC_FC_DATA, RT_ALLOC_FC_RET_DATA, RT_ALLOC_CL_CODE, RT_ALLOC_CL_DATA, RT_ALLOC_L2_CL_DATA,
    RT_ALLOC_PERIPH
} rt_alloc_e;
#define rt_alloc(kind, size) ((kind) == RT_ALLOC_CL_DATA ? xp_l1_malloc(size) : malloc(size))
#define rt_free(kind, memory, size) ((kind) == RT_ALLOC_CL_DATA ? xp_l1_free(memory) : free(memory))

/* Copies. */
typedef pi_cl_dma_copy_t rt_dma_copy_t;
typedef pi_cl_dma_dir_e rt_dma_dir_e;
#define RT_DMA_DIR_LOC2EXT PI_CL_DMA_DIR_LOC2EXT
#define RT_DMA_DIR_EXT2LOC PI_CL_DMA_DIR_EXT2LOC
static inline void rt_dma_memcpy_2d(unsigned ext, unsigned loc, unsigned short size, unsigned short stride,
                                    unsigned short length, rt_dma_dir_e dir, int merge, rt_dma_copy_t *copy) {
    if (!merge)
        copy->id = xp_dma_identifier();
    xp_dma_copy(ext, loc, size, stride, length, dir);
}
#define rt_dma_memcpy(ext, loc, size, dir, merge, copy) rt_dma_memcpy_2d(ext, loc, size, 0, 0, dir, merge, copy)
#define rt_dma_wait(copy) pi_cl_dma_wait(copy)
#define rt_dma_flush() pi_cl_dma_flush()

/* Counters. */
typedef struct { uint32_t events; uint32_t saved[PI_PERF_CYCLES + 1]; } rt_perf_t;
enum { XP_PERF_EVENTS(RT_PERF_) };
static inline void rt_perf_init(rt_perf_t *perf) { memset(perf, 0, sizeof *perf); }
static inline void rt_perf_conf(rt_perf_t *perf, unsigned events) {
    perf->events = events;
    pi_perf_conf(events);
}
#define rt_perf_reset(perf) ((void)(perf), pi_perf_reset())
#define rt_perf_start(perf) ((void)(perf), pi_perf_start())
#define rt_perf_stop(perf) ((void)(perf), pi_perf_stop())
#define rt_perf_read(event) pi_perf_read(event)
/* Adds what has been counted to what has been saved. */
static inline void rt_perf_save(rt_perf_t *perf) {
    for (int event = 0; event <= PI_PERF_CYCLES; ++event)
        perf->saved[event] += perf->events >> event & 1 ? pi_perf_read(event) : 0;
}
#define rt_perf_get(perf, event) ((perf)->saved[event])

/* The timer of the oldest ones. */
#define start_timer() xp_timer_start()
#define stop_timer() xp_timer_stop()
#define reset_timer() xp_timer_reset()
#define get_time() xp_timer_count()

#endif
