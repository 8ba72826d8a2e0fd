/* The MatMul of a convolution as public libraries for PULP write it: four filters by two pixels, packed words through
 * pointers, products through built-in functions. BITS 8 or 4; MAC_LOAD uses the NN-RF. Prints the cycles of the MatMul.
 */
#include <stdint.h>
#include <stdio.h>

#include "pulp_builtins.h"

#define FILTERS 64
#define LENGTH 288
#define PIXELS 2
#define ROW (LENGTH * BITS / 8)

#if BITS == 8
typedef v4s weights_t;
typedef v4u pixels_t;
#define SUM_DOT(pixels, weights, sum) __builtin_pulp_sdotusp4(pixels, weights, sum)
#else
typedef int32_t weights_t;
typedef uint32_t pixels_t;
#define SUM_DOT(pixels, weights, sum) __builtin_pulp_sdotusp8(pixels, weights, sum)
#endif

/* one word more: Mac&Load fetches the operands of a turn that does not come */
static uint8_t pixels[PIXELS * ROW + 4];
static int8_t weights[FILTERS * ROW + 4];
static int32_t out[PIXELS][FILTERS];

#ifndef MAC_LOAD
static __attribute__((noinline)) void matmul(const uint8_t *in, const int8_t *weight, int32_t *out1, int32_t *out2,
                                             uint16_t filters, uint16_t row) {
    const int8_t *pA = weight;
    for (int i = 0; i < filters >> 2; i++) {
        const uint8_t *pB = in;
        const uint8_t *pB2 = pB + row;
        const int8_t *pA2 = pA + row;
        const int8_t *pA3 = pA2 + row;
        const int8_t *pA4 = pA3 + row;
        int32_t sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, sum5 = 0, sum6 = 0, sum7 = 0, sum8 = 0;
        for (int j = 0; j < row >> 2; j++) {
            weights_t vecA = *(weights_t *)pA;
            weights_t vecA2 = *(weights_t *)pA2;
            weights_t vecA3 = *(weights_t *)pA3;
            weights_t vecA4 = *(weights_t *)pA4;
            pixels_t vecB = *(pixels_t *)pB;
            pixels_t vecB2 = *(pixels_t *)pB2;
            sum = SUM_DOT(vecB, vecA, sum);
            sum2 = SUM_DOT(vecB, vecA2, sum2);
            sum3 = SUM_DOT(vecB, vecA3, sum3);
            sum4 = SUM_DOT(vecB, vecA4, sum4);
            sum5 = SUM_DOT(vecB2, vecA, sum5);
            sum6 = SUM_DOT(vecB2, vecA2, sum6);
            sum7 = SUM_DOT(vecB2, vecA3, sum7);
            sum8 = SUM_DOT(vecB2, vecA4, sum8);
            pA += 4, pA2 += 4, pA3 += 4, pA4 += 4, pB += 4, pB2 += 4;
        }
        *out1++ = sum, *out1++ = sum2, *out1++ = sum3, *out1++ = sum4;
        *out2++ = sum5, *out2++ = sum6, *out2++ = sum7, *out2++ = sum8;
        pA += 3 * row;
    }
}
#else
#define ACTIVATION 8
#define WEIGHT 16
#define MAC(sum, pointer, weight, pixel, reload) \
    sum = xp_mlsdotsup_n(sum, &(pointer), (weight) << 1 | (pixel) | (reload))

static __attribute__((noinline)) void matmul(const uint8_t *in, const int8_t *weight, int32_t *out1, int32_t *out2,
                                             uint16_t filters, uint16_t row) {
    const int8_t *pA = weight;
    for (int i = 0; i < filters >> 2; i++) {
        const uint8_t *pB = in;
        const uint8_t *pB2 = pB + row;
        const int8_t *pA2 = pA + row;
        const int8_t *pA3 = pA2 + row;
        const int8_t *pA4 = pA3 + row;
        int32_t none = 0;
        int32_t sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, sum5 = 0, sum6 = 0, sum7 = 0, sum8 = 0;
        MAC(none, pA, 0, 0, WEIGHT);
        MAC(none, pA2, 1, 0, WEIGHT);
        MAC(none, pA3, 2, 0, WEIGHT);
        MAC(none, pA4, 3, 0, WEIGHT);
        MAC(none, pB, 0, 0, ACTIVATION);
        MAC(none, pB2, 0, 1, ACTIVATION);
        for (int j = 0; j < row >> 2; j++) {
            MAC(sum, pB, 0, 0, 0);
            MAC(sum2, pB, 1, 0, 0);
            MAC(sum3, pB, 2, 0, 0);
            MAC(sum4, pB, 3, 0, ACTIVATION);
            MAC(sum5, pA, 0, 1, WEIGHT);
            MAC(sum6, pA2, 1, 1, WEIGHT);
            MAC(sum7, pA3, 2, 1, WEIGHT);
            MAC(sum8, pA4, 3, 1, WEIGHT);
            MAC(none, pB2, 0, 1, ACTIVATION);
        }
        *out1++ = sum, *out1++ = sum2, *out1++ = sum3, *out1++ = sum4;
        *out2++ = sum5, *out2++ = sum6, *out2++ = sum7, *out2++ = sum8;
        pA = weight += 4 * row;
    }
}
#endif

static int32_t element(const void *packed, int32_t index, int32_t is_signed) {
    uint32_t byte = ((const uint8_t *)packed)[index * BITS / 8];
    int32_t value = (int32_t)(byte >> index * BITS % 8 & ((1u << BITS) - 1));
    return is_signed && value >> (BITS - 1) ? value - (1 << BITS) : value;
}

static uint32_t cycles(void) {
    uint32_t count;
    __asm__ volatile("csrr %0, mcycle" : "=r"(count));
    return count;
}

int main(void) {
    uint32_t random = 1;
    for (int i = 0; i < PIXELS * ROW; i++) {
        random = random * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(random >> 24);
    }
    for (int i = 0; i < FILTERS * ROW; i++) {
        random = random * 1664525u + 1013904223u;
        weights[i] = (int8_t)(random >> 24);
    }
    uint32_t begin = cycles();
    matmul(pixels, weights, out[0], out[1], FILTERS, ROW);
    uint32_t taken = cycles() - begin;
    int wrong = 0;
    for (int pixel = 0; pixel < PIXELS; pixel++) {
        for (int filter = 0; filter < FILTERS; filter++) {
            int32_t sum = 0;
            for (int k = 0; k < LENGTH; k++) {
                sum += element(pixels + pixel * ROW, k, 0) * element(weights + filter * ROW, k, 1);
            }
            wrong += sum != out[pixel][filter];
        }
    }
    printf("%u cycles\n", (unsigned)taken);
    return wrong != 0;
}
