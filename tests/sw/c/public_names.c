/* A test program in the manner of those of PULP-NN: elements come one to a byte in the L2, core 0 packs them into the
   TCDM, all cores run three layers and count cycles, and core 0 compares with golden.h. With OLDER the names are those
   of the older runtime. */
#ifdef OLDER
#include "rt/rt_api.h"
typedef rt_perf_t argument_t;
#else
#include "pmsis.h"
typedef void argument_t;
#endif
#include "pulp_nn_utils.h"
#include "pulp_nn_kernels.h"

#include "golden.h"

#define PIXELS (SIDE * SIDE)
#define POOLED (SIDE / 2)
#define FEATURES (POOLED * POOLED * CHANNELS)

PI_L2 uint8_t image_l2[PIXELS * INPUTS] = IMAGE;
PI_L2 int8_t filters_l2[CHANNELS * 9 * INPUTS] = FILTERS, weights_l2[CLASSES * FEATURES] = WEIGHTS;
PI_L2 int32_t kappa_l2[CHANNELS] = KAPPA, lambda_l2[CHANNELS] = LAMBDA;
PI_L2 uint8_t map_l2[PIXELS * CHANNELS] = MAP, pooled_l2[FEATURES] = LARGEST, scores_l2[CLASSES] = SCORES;

PI_L1 uint8_t image[PIXELS * INPUTS], map[PACK_INT4_SIZE(PIXELS * CHANNELS)], pooled[PACK_INT4_SIZE(FEATURES)];
PI_L1 uint8_t scores[CLASSES], im2col[2 * 9 * INPUTS * NUM_CORES];
PI_L1 int8_t filters[PACK_INT4_SIZE(CHANNELS * 9 * INPUTS)], weights[CLASSES * FEATURES];
PI_L1 int32_t kappa[CHANNELS], lambda[CHANNELS];

static int errors, cycles[NUM_CORES];

static uint8_t packed_pair(const uint8_t *elements) {
    int8_t mask = 0xf0, keep = ~mask, offset = 4;
    return bitins(elements[0], keep, elements[1], mask, offset);
}

static int wrong_pairs(const uint8_t *results, const uint8_t *golden, int elements) {
    int wrong = 0;
    for (int i = 0; i < elements / 2; ++i)
        wrong += results[i] != packed_pair(golden + 2 * i);
    return wrong;
}

static void layers(argument_t *unused) {
    (void)unused;
    if (pi_core_id() == 0) {
        memcpy(image, image_l2, sizeof image);
        memcpy(weights, weights_l2, sizeof weights);
        for (unsigned i = 0; i < sizeof filters; ++i)
            filters[i] = packed_pair((uint8_t *)filters_l2 + 2 * i);
        for (int i = 0; i < CHANNELS; ++i) {
            kappa[i] = kappa_l2[i];
            lambda[i] = lambda_l2[i];
        }
        pulp_zero_mem(scores, sizeof scores);
    }
    pi_cl_team_barrier();
#ifdef OLDER
    rt_perf_t perf;
    rt_perf_init(&perf);
    rt_perf_conf(&perf, 1 << RT_PERF_CYCLES);
    rt_perf_reset(&perf);
    rt_perf_start(&perf);
#else
    pi_perf_conf(1 << PI_PERF_CYCLES);
    pi_perf_reset();
    pi_perf_start();
#endif
    pulp_nn_conv_u8_u4_i4(
        image, im2col, NULL, map, filters, kappa, lambda, 1, MAP_SHIFT, SIDE, SIDE, INPUTS, SIDE, SIDE, CHANNELS, 3, 3, 1,
        1, 1, 1, 1, 1, 1, 1
    );
    pulp_nn_maxpool_u4(map, pooled, SIDE, SIDE, CHANNELS, POOLED, POOLED, 2, 2, 0, 0, 0, 0, 2, 2);
    pulp_nn_linear_u4_u8_i8(pooled, NULL, scores, weights, NULL, NULL, SCORE_FACTOR, SCORE_SHIFT, FEATURES, CLASSES, 1, 0);
#ifdef OLDER
    rt_perf_stop(&perf);
    rt_perf_save(&perf);
    cycles[rt_core_id()] = rt_perf_get(&perf, RT_PERF_CYCLES);
    rt_team_barrier();
#else
    pi_perf_stop();
    cycles[pi_core_id()] = pi_perf_read(PI_PERF_CYCLES);
    pi_cl_team_barrier();
#endif
    if (pi_core_id() == 0) {
        errors += wrong_pairs(map, map_l2, PIXELS * CHANNELS);
        errors += wrong_pairs(pooled, pooled_l2, FEATURES);
        for (int i = 0; i < CLASSES; ++i)
            errors += scores[i] != scores_l2[i];
        printf("cores: %d, errors: %d, counted: %d\n", NUM_CORES, errors, cycles[NUM_CORES - 1] > 0);
    }
}

#ifdef OLDER
static void cluster_entry(rt_perf_t *unused) { rt_team_fork(NUM_CORES, layers, unused); }

int main() {
    rt_event_sched_t scheduler;
    rt_event_sched_init(&scheduler);
    if (rt_event_alloc(&scheduler, 8))
        return -1;
    rt_cluster_mount(1, 0, 0, NULL);
    rt_perf_t *counters = rt_alloc(RT_ALLOC_L2_CL_DATA, sizeof(rt_perf_t));
    if (counters == NULL)
        return -1;
    rt_cluster_call(NULL, 0, (void *)cluster_entry, counters, NULL, 1024, 1024, rt_nb_pe(), NULL);
    rt_free(RT_ALLOC_L2_CL_DATA, (void *)counters, sizeof(rt_perf_t));
    rt_cluster_mount(0, 0, 0, NULL);
    return errors > 0;
}
#else
static void cluster_entry() { pi_cl_team_fork(NUM_CORES, (void *)layers, NULL); }

int main() {
    struct pi_device cluster = {0};
    struct pi_cluster_conf conf;
    struct pi_cluster_task task = {0};
    pi_cluster_task(&task, (void *)cluster_entry, NULL);
    task.stack_size = task.slave_stack_size = 1024;
    pi_cluster_conf_init(&conf);
    conf.id = 0;
    pi_open_from_conf(&cluster, &conf);
    if (pi_cluster_open(&cluster))
        return -1;
    pi_cluster_send_task_to_cl(&cluster, &task);
    pi_cluster_close(&cluster);
    return errors > 0;
}
#endif
