/* Sizes of the network, and its layers as plain loops shared by the cores of the team. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdint.h>

#ifndef SIDE
#define SIDE 16
#endif
enum { HALF = SIDE / 2, QUARTER = HALF / 2, INPUTS = 4, CHANNELS = 32, TAPS = 9, CLASSES = 10 };
enum { FEATURES = QUARTER * QUARTER * CHANNELS };
/* of batch normalisation: results spread over their range */
enum { OFFSET = 1 << 17, FIRST_SHIFT = 15, SECOND_SHIFT = 10, DEPTHWISE_SHIFT = 10 };

struct loops {
    int side, inputs, x_bits, w_bits, y_bits, shift;
};
extern const struct loops first_layer, second_layer;

/* 3x3 convolution with padding. */
void conv_loops(
    const struct loops *layer, const uint8_t *in, const int8_t *weights, const int32_t *bias, const int32_t *kappa,
    const int32_t *lambda, uint8_t *out
);
/* Of [channel][row][column], 3x3 with padding. */
void depthwise_loops(const uint8_t *in, const int8_t *weights, const int32_t *kappa, const int32_t *lambda, uint8_t *out);
/* 2x2: of 4 bits, of 8 bits. */
void maxpool_loops(const uint8_t *in, uint8_t *out);
void avgpool_loops(const uint8_t *in, uint8_t *out);
void linear_loops(const uint8_t *in, const int8_t *weights, int32_t *out);

/* Bytes that look random. */
void fill(void *bytes, int count);

#endif
