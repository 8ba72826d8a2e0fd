/* A network written against the public names and layouts of PULP-NN, once by the library and once by loops as a
 * compiler leaves them, on all cores of the cluster (or on the only one there is). Prints the cycles of both, and
 * whether their results agree.
 */
#include "network.h"

#include <pmsis.h>
#include <pulp_nn_kernels.h>

/* Of the library, and of the loops. */
PI_L1 static uint8_t image[SIDE * SIDE * INPUTS], second_input[2][HALF * HALF * CHANNELS / 2];
PI_L1 static uint8_t maps[2][SIDE * SIDE * CHANNELS / 2], deep[2][HALF * HALF * CHANNELS];
PI_L1 static uint8_t planes[2][HALF * HALF * CHANNELS], separate[2][HALF * HALF * CHANNELS];
PI_L1 static uint8_t small[2][QUARTER * QUARTER * CHANNELS];
PI_L1 static int32_t scores[2][CLASSES];
PI_L1 static int8_t first_weights[CHANNELS * TAPS * INPUTS], second_weights[CHANNELS * TAPS * CHANNELS / 2];
PI_L1 static int8_t filters[CHANNELS * TAPS], last_weights[CLASSES * FEATURES];
PI_L1 static int32_t kappa[CHANNELS], lambda[CHANNELS], bias[CHANNELS];

struct step {
    const char *name;
    void (*layers[2])(void); /* by the library, by loops; on every core */
    const uint8_t *results[2];
    unsigned bytes;
};

static void first_by_library(void) {
    pulp_nn_conv_u8_u4_i8(
        image, NULL, (int8_t *)bias, maps[0], first_weights, kappa, lambda, 0, FIRST_SHIFT, SIDE, SIDE, INPUTS, SIDE, SIDE,
        CHANNELS, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1
    );
}
static void first_by_loops(void) { conv_loops(&first_layer, image, first_weights, bias, kappa, lambda, maps[1]); }

static void pool_by_library(void) {
    pulp_nn_maxpool_u4(maps[0], second_input[0], SIDE, SIDE, CHANNELS, HALF, HALF, 2, 2, 0, 0, 0, 0, 2, 2);
}
static void pool_by_loops(void) { maxpool_loops(maps[1], second_input[1]); }

static void second_by_library(void) {
    pulp_nn_conv_u4_u8_i4(
        second_input[0], NULL, NULL, deep[0], second_weights, kappa, lambda, 0, SECOND_SHIFT, HALF, HALF, CHANNELS, HALF,
        HALF, CHANNELS, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1
    );
}
static void second_by_loops(void) {
    conv_loops(&second_layer, second_input[1], second_weights, NULL, kappa, lambda, deep[1]);
}

static void depthwise_by_library(void) {
    pulp_nn_depthwise_u8_u8_i8(
        planes[0], NULL, NULL, separate[0], filters, NULL, kappa, lambda, 0, DEPTHWISE_SHIFT, HALF, HALF, CHANNELS, HALF,
        HALF, CHANNELS, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1
    );
}
static void depthwise_by_loops(void) { depthwise_loops(planes[1], filters, kappa, lambda, separate[1]); }

static void mean_by_library(void) {
    pulp_nn_avgpool_u8_u8(
        separate[0], small[0], 0, 0, 0, HALF, HALF, CHANNELS, QUARTER, QUARTER, 2, 2, 0, 0, 0, 0, 2, 2, 0
    );
}
static void mean_by_loops(void) { avgpool_loops(separate[1], small[1]); }

static void last_by_library(void) {
    pulp_nn_linear_u8_i32_i8(small[0], NULL, (int8_t *)scores[0], last_weights, FEATURES, CLASSES);
}
static void last_by_loops(void) { linear_loops(small[1], last_weights, scores[1]); }

#define BOTH(array) {(const uint8_t *)(array)[0], (const uint8_t *)(array)[1]}, sizeof(array)[0]
static const struct step steps[] = {
    {"conv 8x8x4", {first_by_library, first_by_loops}, BOTH(maps)},
    {"maxpool 4", {pool_by_library, pool_by_loops}, BOTH(second_input)},
    {"conv 4x4x8", {second_by_library, second_by_loops}, BOTH(deep)},
    {"depthwise 8x8x8", {depthwise_by_library, depthwise_by_loops}, BOTH(separate)},
    {"avgpool 8x8", {mean_by_library, mean_by_loops}, BOTH(small)},
    {"linear 8x8xi32", {last_by_library, last_by_loops}, BOTH(scores)},
};

/* What one core of the team does. */
static void on_each_core(void *layer) { ((void (*)(void))(uintptr_t)layer)(); }

static unsigned cycles_of(void (*layer)(void)) {
    pi_perf_conf(1 << PI_PERF_CYCLES);
    pi_perf_reset();
    pi_perf_start();
    pi_cl_team_fork(NUM_CORES, on_each_core, (void *)(uintptr_t)layer);
    pi_perf_stop();
    return pi_perf_read(PI_PERF_CYCLES);
}

/* Depthwise layers take [channel][row][column]. */
static void turn_over(void) {
    for (int which = 0; which < 2; ++which)
        for (int pixel = 0; pixel < HALF * HALF; ++pixel)
            for (int channel = 0; channel < CHANNELS; ++channel)
                planes[which][channel * HALF * HALF + pixel] = deep[which][pixel * CHANNELS + channel];
}

int main(void) {
    fill(image, sizeof image);
    fill(first_weights, sizeof first_weights);
    fill(second_weights, sizeof second_weights);
    fill(filters, sizeof filters);
    fill(last_weights, sizeof last_weights);
    for (int i = 0; i < CHANNELS; ++i) {
        kappa[i] = 40 + i;
        lambda[i] = OFFSET;
        bias[i] = 16 * i - 256;
    }
    unsigned wrong = 0, all[2] = {0, 0};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; ++i) {
        const struct step *step = &steps[i];
        if (step->layers[0] == depthwise_by_library)
            turn_over();
        unsigned cycles[2], different = 0;
        for (int which = 0; which < 2; ++which)
            all[which] += cycles[which] = cycles_of(step->layers[which]);
        for (unsigned byte = 0; byte < step->bytes; ++byte)
            different += step->results[0][byte] != step->results[1][byte];
        printf("%-16s %8u of %8u cycles, %u wrong bytes\n", step->name, cycles[0], cycles[1], different);
        wrong += different;
    }
    printf("%-16s %8u of %8u cycles on %d cores\n", "all", all[0], all[1], NUM_CORES);
    return wrong != 0;
}
