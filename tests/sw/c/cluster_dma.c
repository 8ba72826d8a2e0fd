/* Copies of all cores between the TCDM and the L2, by results that are known. Returns the line of the first check that
 * fails.
 */
#include "check.h"
#include <pmsis.h>

enum { SHARE = 256, WIDE = 66000, LINE = 24, STRIDE = 40 };

PI_L2 static uint8_t source[XP_CORES * SHARE], back[XP_CORES * 2 * SHARE], far[WIDE];
PI_L1 static uint8_t inside[XP_CORES * SHARE], twice[XP_CORES * SHARE], wide[WIDE];

static uint8_t pattern(uint32_t index) { return (uint8_t)(index * 7 ^ index >> 5); }

static uint32_t address(const void *memory) { return (uint32_t)(uintptr_t)memory; }

/* In in one piece, within the TCDM, and out in lines; a copy more with the same wait. */
static void each(void *argument) {
    uint32_t core = (uint32_t)pi_core_id(), begin = core * SHARE, size = SHARE - 9 - core;
    (void)argument;
    pi_cl_dma_copy_t in = {0}, out = {0};
    in.dir = PI_CL_DMA_DIR_EXT2LOC;
    in.ext = address(source + begin + core);
    in.loc = address(inside + begin + 3);
    in.size = size;
    pi_cl_dma_memcpy(&in);
    in.merge = 1;
    in.ext = address(source + begin + core + size);
    in.loc = address(inside + begin + 3 + size);
    in.size = 2;
    pi_cl_dma_memcpy(&in);
    pi_cl_dma_wait(&in);
    for (uint32_t i = 0; i < size + 2; ++i)
        CHECK(inside[begin + 3 + i] == pattern(begin + core + i));
    CHECK(inside[begin + 2] == 0 && inside[begin + size + 5] == 0);

    pi_cl_dma_cmd_t within;
    pi_cl_dma_cmd(address(inside + begin + 3), address(twice + begin), size, PI_CL_DMA_DIR_EXT2LOC, &within);
    pi_cl_dma_cmd_wait(&within);

    out.dir = PI_CL_DMA_DIR_LOC2EXT;
    out.ext = address(back + 2 * begin + 1);
    out.loc = address(twice + begin);
    out.size = size;
    out.stride = STRIDE;
    out.length = LINE;
    pi_cl_dma_memcpy_2d(&out);
    pi_cl_dma_wait(&out);
    for (uint32_t i = 0; i < size; ++i)
        CHECK(back[2 * begin + 1 + i / LINE * STRIDE + i % LINE] == pattern(begin + core + i));
    CHECK(back[2 * begin] == 0 && back[2 * begin + 1 + LINE] == 0);
}

int main(void) {
    for (uint32_t i = 0; i < sizeof source; ++i)
        source[i] = pattern(i);
    pi_cl_team_fork(0, each, NULL);

    /* more than one command takes */
    for (uint32_t i = 0; i < WIDE; i += 977)
        far[i] = pattern(i);
    pi_cl_dma_copy_t copy = {0};
    copy.dir = PI_CL_DMA_DIR_EXT2LOC;
    copy.ext = address(far);
    copy.loc = address(wide);
    copy.size = WIDE;
    xp_timer_reset();
    xp_timer_start();
    pi_cl_dma_memcpy(&copy);
    pi_cl_dma_wait(&copy);
    uint32_t cycles = xp_timer_count();
    for (uint32_t i = 0; i < WIDE; i += 977)
        CHECK(wide[i] == pattern(i) && wide[i + 1] == 0);
    printf("%u bytes in %u cycles\n", (unsigned)WIDE, (unsigned)cycles);
    return 0;
}
