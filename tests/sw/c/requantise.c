/* The instructions of XpulpNN 2, each with a result that shows what it did. */
#include <stdio.h>
#include "xpulpnn.h"

static int32_t parameters[2] = {3, -44};
static uint32_t words[4] = {0x01010101, 0x02020202, 0x03030303, 0x04040404};

int main(void) {
    int32_t *next_parameter = parameters;
    uint32_t *next = words;
    xp_nn_load(&next, 8);                             /* NN[0] = ones */
    xp_nn_load(&next, 16);                            /* NN[2] = twos */
    int32_t sum = xp_mldotsp_b(&next, 24);            /* 4 * 2 * 1, NN[1] = threes */
    sum = xp_mlsdotsp_b(sum, &next, 25);              /* + 4 * 2 * 3, NN[0] = fours */
    sum = xp_mlsdotsp_b(sum, &next, 0);               /* + 4 * 2 * 4 */
    xp_rqld(0, &next_parameter);
    xp_rqld(1, &next_parameter);
    uint32_t word = xp_rqu_b(sum, 0, 1, 0x11111111);  /* 3 * 64 - 44 = 0x94 */
    word = xp_rqs_b(sum, 2, 3, word);                 /* 148 >> 2 = 0x25 */
    word = xp_rqs_c(-sum, 1, 0, word);                /* -118, clipped to -2: 0b10 */
    printf("%d %08x %d %d\n", (int)sum, (unsigned)word, (int)(next - words), (int)(next_parameter - parameters));
    return 0;
}
