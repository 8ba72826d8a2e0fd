/* Four pixels times four filters of 64 bytes: the coprocessor by weights in registers, then by steps, and plain C.
 * main returns 0 if all agree. */
#include <stdint.h>
#include "xpulpnn_xif.h"

#define STEPS 16

/* words of the pixels, and of the filters, alternate */
static uint32_t pixels[STEPS][4], filters[STEPS][4];

static int32_t plain(int pixel, int filter) {
    int32_t sum = 0;
    for (int step = 0; step < STEPS; ++step)
        for (int lane = 0; lane < 32; lane += 8)
            sum += (uint8_t)(pixels[step][pixel] >> lane) * (int8_t)(filters[step][filter] >> lane);
    return sum;
}

static int differs(void) {
    return xp_pa_rd(0) != (uint32_t)plain(0, 0) || xp_pa_rd(6) != (uint32_t)plain(1, 2) ||
           xp_pa_rd(9) != (uint32_t)plain(2, 1) || xp_pa_rd(15) != (uint32_t)plain(3, 3);
}

int main(void) {
    for (int step = 0; step < STEPS; ++step)
        for (int i = 0; i < 4; ++i) {
            pixels[step][i] = 0x01E05A17u * (uint32_t)(4 * step + i + 1);
            filters[step][i] = 0x71B3290Du * (uint32_t)(step + 16 * i + 1);
        }
    xp_pa_clr();
    for (int step = 0; step < STEPS; ++step) {
        xp_pa_ld(0, pixels[step][0], pixels[step][1]);
        xp_pa_ld(1, pixels[step][2], pixels[step][3]);
        xp_pa_blkusp_b(0, filters[step][0], filters[step][1]);
        xp_pa_blkusp_b(1, filters[step][2], filters[step][3]);
    }
    if (differs()) return 1;
    xp_pa_clr();
    xp_pa_ptr(pixels, filters);
    xp_pa_stepusp_b(STEPS);
    if (xp_pa_sync()) return 2;
    return differs() ? 3 : 0;
}
