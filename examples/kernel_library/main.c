/* A convolution and a pooling by the functions of libxpulpnn.a, the results beside those of numpy. */
#include <stdio.h>
#include <xpulpnn_kernels.h>
#include <xpulpnn_rt.h>

#include "data.h"  /* input, expected: by network.py */
#include "layer.h" /* weights, parameters and sizes: by xpulpnn pack */

enum { SIDE = 8, POOLED = SIDE / 2, PIXEL_BYTES = layer_output_bytes / (SIDE * SIDE) };

static uint8_t features[layer_output_bytes] __attribute__((aligned(4)));
static uint8_t pooled[POOLED * POOLED * PIXEL_BYTES] __attribute__((aligned(4)));
static uint8_t buffer[layer_core_buffer_bytes] __attribute__((aligned(4)));

int main(void) {
    const struct xp_conv_arguments conv = layer_arguments(input, features, buffer);
    const struct xp_maxpool_arguments pool = {
        .input = features,
        .output = pooled,
        .pixel_bytes = PIXEL_BYTES,
        .out_pixel_bytes = PIXEL_BYTES,
        .height = SIDE,
        .width = SIDE,
        .out_height = POOLED,
        .out_width = POOLED,
        .kernel_height = 2,
        .kernel_width = 2,
        .stride_y = 2,
        .stride_x = 2,
    };
    const uint32_t start = xp_cycles();
    layer_function(&conv, 0, 1);
    xp_maxpool_2x2_s2x2_4x4_xpulpnn(&pool, 0, 1);
    const uint32_t cycles = (uint32_t)xp_cycles() - start;
    unsigned wrong = sizeof(expected) != sizeof(pooled);
    for (unsigned i = 0; i < sizeof(pooled); ++i) wrong += pooled[i] != ((const uint8_t *)expected)[i];
    printf("%u cycles, %u wrong bytes\n", (unsigned)cycles, wrong);
    return wrong != 0;
}
