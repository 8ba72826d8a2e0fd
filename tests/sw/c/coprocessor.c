/* Blocks of products of the coprocessor against plain C; main returns the number of the check that failed. */
#include <stdint.h>
#include "xpulpnn_xif.h"

#define STEPS 3

static uint8_t activations[STEPS][4][4] __attribute__((aligned(4)));
static int8_t weights[STEPS][4][4] __attribute__((aligned(4)));

static uint32_t word(const void *bytes) { return *(const uint32_t *)bytes; }

static int32_t expected(int pixel, int filter) {
    int32_t sum = 0;
    for (int step = 0; step < STEPS; ++step)
        for (int lane = 0; lane < 4; ++lane) sum += activations[step][pixel][lane] * weights[step][filter][lane];
    return sum;
}

static int wrong_sums(void) {
    return xp_pa_rd(0) != (uint32_t)expected(0, 0) || xp_pa_rd(7) != (uint32_t)expected(1, 3) ||
           xp_pa_rd(10) != (uint32_t)expected(2, 2) || xp_pa_rd(13) != (uint32_t)expected(3, 1);
}

int main(void) {
    xp_xif_context saved;
    for (int i = 0; i < 16 * STEPS; ++i) {
        ((uint8_t *)activations)[i] = (uint8_t)(i * 37 + 130);
        ((int8_t *)weights)[i] = (int8_t)(i * 29 - 60);
    }
    xp_pa_clr();
    for (int step = 0; step < STEPS; ++step) {
        xp_pa_ld(0, word(activations[step][0]), word(activations[step][1]));
        xp_pa_ld(1, word(activations[step][2]), word(activations[step][3]));
        xp_pa_blkusp_b(0, word(weights[step][0]), word(weights[step][1]));
        xp_pa_blkusp_b(1, word(weights[step][2]), word(weights[step][3]));
    }
    if (wrong_sums()) return 1;
    xp_xif_save(&saved);
    xp_pa_clr();
    xp_pa_ld(4, 63, 0);
    /* the steps must see a store that a later one replaces */
    uint8_t first = activations[0][0][0];
    activations[0][0][0] = first + 1;
    xp_pa_ptr(activations, weights);
    xp_pa_stepusp_b(STEPS);
    if (xp_pa_sync()) return 2;
    activations[0][0][0] = first;
    if (xp_pa_rd(0) != (uint32_t)(expected(0, 0) + weights[0][0][0])) return 2;
    xp_pa_wr(0, expected(0, 0));
    if (wrong_sums()) return 2;
    if (xp_pa_rd(26) != (uint32_t)activations + sizeof activations) return 3;
    xp_pa_accusp_b(5, word(activations[1][2]), word(weights[2][1]));
    xp_xif_restore(&saved);
    if (wrong_sums() || xp_pa_rd(22) || xp_pa_rd(5) != (uint32_t)expected(1, 1) || xp_pa_rd(26)) return 4;
    xp_pa_ld(4, 9, 0);
    for (int pixel = 0; pixel < 4; ++pixel) saved.words[pixel] = 0;
    xp_pa_rqs_b(0, 3, 7);
    xp_pa_rqs_b(1, 3, 7);
    int32_t code = (3 * expected(2, 1) + 7) >> 9;
    code = code < -128 ? -128 : code > 127 ? 127 : code;
    if ((int8_t)(xp_pa_rd(8) >> 8) != code || xp_pa_rd(8) >> 16) return 5;
    return xp_add_b(0x01FF7F80, 0x01010101) == 0x02008081u ? 0 : 6;
}
