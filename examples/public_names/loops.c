/* The layers as plain loops: every core takes some of the rows, the neurons or the channels. */
#include "network.h"

#include <pmsis.h>

const struct loops first_layer = {SIDE, INPUTS, 8, 8, 4, FIRST_SHIFT};
const struct loops second_layer = {HALF, CHANNELS, 4, 4, 8, SECOND_SHIFT};

static int first_of(int count) { return count * pi_core_id() / NUM_CORES; }
static int end_of(int count) { return count * (pi_core_id() + 1) / NUM_CORES; }

static int clipped(int value, int bits) {
    const int most = (1 << bits) - 1;
    return value < 0 ? 0 : value > most ? most : value;
}

/* The products of one pixel of a filter, whose first element is in[pixel] and weights[first]. */
static int products(const struct loops *layer, const uint8_t *in, int pixel, const int8_t *weights, int first) {
    int sum = 0;
    if (layer->x_bits == 8) {
        for (int i = 0; i < layer->inputs; ++i)
            sum += in[pixel + i] * weights[first + i];
    } else {
        for (int i = 0; i < layer->inputs / 2; ++i) {
            const int x = in[pixel / 2 + i], w = weights[first / 2 + i];
            sum += (x & 15) * ((int8_t)(w << 4) >> 4) + (x >> 4) * (w >> 4);
        }
    }
    return sum;
}

void conv_loops(
    const struct loops *layer, const uint8_t *in, const int8_t *weights, const int32_t *bias, const int32_t *kappa,
    const int32_t *lambda, uint8_t *out
) {
    const int side = layer->side, inputs = layer->inputs;
    for (int y = first_of(side); y < end_of(side); ++y) {
        for (int x = 0; x < side; ++x) {
            for (int channel = 0; channel < CHANNELS; ++channel) {
                int sum = bias == NULL ? 0 : bias[channel];
                for (int ky = 0; ky < 3; ++ky) {
                    for (int kx = 0; kx < 3; ++kx) {
                        const int row = y + ky - 1, column = x + kx - 1;
                        if (row >= 0 && row < side && column >= 0 && column < side)
                            sum += products(
                                layer, in, (row * side + column) * inputs, weights,
                                (channel * TAPS + ky * 3 + kx) * inputs
                            );
                    }
                }
                const int result = clipped((kappa[channel] * sum + lambda[channel]) >> layer->shift, layer->y_bits);
                const int place = (y * side + x) * CHANNELS + channel;
                if (layer->y_bits == 8)
                    out[place] = (uint8_t)result;
                else if (channel % 2 == 0)
                    out[place / 2] = (uint8_t)result;
                else
                    out[place / 2] |= (uint8_t)(result << 4);
            }
        }
    }
}

void depthwise_loops(const uint8_t *in, const int8_t *weights, const int32_t *kappa, const int32_t *lambda, uint8_t *out) {
    for (int channel = first_of(CHANNELS); channel < end_of(CHANNELS); ++channel) {
        for (int y = 0; y < HALF; ++y) {
            for (int x = 0; x < HALF; ++x) {
                int sum = 0;
                for (int ky = 0; ky < 3; ++ky) {
                    for (int kx = 0; kx < 3; ++kx) {
                        const int row = y + ky - 1, column = x + kx - 1;
                        if (row >= 0 && row < HALF && column >= 0 && column < HALF)
                            sum += in[(channel * HALF + row) * HALF + column] * weights[channel * TAPS + ky * 3 + kx];
                    }
                }
                const int result = clipped((kappa[channel] * sum + lambda[channel]) >> DEPTHWISE_SHIFT, 8);
                out[(y * HALF + x) * CHANNELS + channel] = (uint8_t)result;
            }
        }
    }
}

void maxpool_loops(const uint8_t *in, uint8_t *out) {
    for (int y = first_of(HALF); y < end_of(HALF); ++y) {
        for (int x = 0; x < HALF; ++x) {
            for (int byte = 0; byte < CHANNELS / 2; ++byte) {
                int low = 0, high = 0;
                for (int pixel = 0; pixel < 4; ++pixel) {
                    const int value = in[((2 * y + pixel / 2) * SIDE + 2 * x + pixel % 2) * CHANNELS / 2 + byte];
                    low = (value & 15) > low ? value & 15 : low;
                    high = value >> 4 > high ? value >> 4 : high;
                }
                out[(y * HALF + x) * CHANNELS / 2 + byte] = (uint8_t)(high << 4 | low);
            }
        }
    }
}

void avgpool_loops(const uint8_t *in, uint8_t *out) {
    for (int y = first_of(QUARTER); y < end_of(QUARTER); ++y) {
        for (int x = 0; x < QUARTER; ++x) {
            for (int channel = 0; channel < CHANNELS; ++channel) {
                int sum = 0;
                for (int pixel = 0; pixel < 4; ++pixel)
                    sum += in[((2 * y + pixel / 2) * HALF + 2 * x + pixel % 2) * CHANNELS + channel];
                out[(y * QUARTER + x) * CHANNELS + channel] = (uint8_t)(sum / 4);
            }
        }
    }
}

void linear_loops(const uint8_t *in, const int8_t *weights, int32_t *out) {
    for (int neuron = first_of(CLASSES); neuron < end_of(CLASSES); ++neuron) {
        int sum = 0;
        for (int i = 0; i < FEATURES; ++i)
            sum += in[i] * weights[neuron * FEATURES + i];
        out[neuron] = sum;
    }
}

void fill(void *bytes, int count) {
    static uint32_t random = 1;
    for (int i = 0; i < count; ++i) {
        random = random * 1664525 + 1013904223;
        ((uint8_t *)bytes)[i] = (uint8_t)(random >> 24);
    }
}
