/* Acceptance test of a core with the coprocessor; main returns 0 or the number of the first check that fails.
 *
 *     xpulpnn cc --xif --set memory=none examples/xif/acceptance.c -o acceptance.elf
 *
 * Checks 1 to 4 fail on CV32E40X as published, its issue 941: an instruction of the coprocessor is accepted while EX is
 * not ready, and its result is not written. The core needs `&& ex_ready_i` in the line that assigns issue_valid. Check 4
 * needs a data memory that answers late. If check 5 does not end, the coprocessor lacks the setting in_time of CV32E40X. */
#include <stdint.h>
#include "xpulpnn_xif.h"

#define OLD 7
#define SUM 0x12345678u

/* Reads accumulator 0, which holds SUM, directly behind another instruction. */
#define READ_BEHIND(behind)                                                              \
    ({                                                                                   \
        uint32_t read = OLD, other;                                                      \
        __asm__ volatile(behind "\n\t" XP_ASM_pa_rd("%[read]", "0")                      \
                         : [read] "+&r"(read), [other] "=&r"(other)                      \
                         : [word] "r"(&word), [value] "r"(1000), [small] "r"(3) : "memory"); \
        read;                                                                            \
    })

static volatile uint32_t word = 5;
static uint32_t stored[8];

static int lost_operand(void) {
    uint32_t quotient = OLD;
    __asm__ volatile("div %[quotient], %[value], %[small]\n\t" XP_ASM_pa_wr("1", "%[quotient]")
                     : [quotient] "+&r"(quotient) : [value] "r"(1000), [small] "r"(3));
    return xp_pa_rd(1) != 333;
}

/* Blocks in a row, with loads and stores behind each, which the core repeats if results are late. */
static int wrong_blocks(void) {
    xp_pa_clr();
    xp_pa_ld(0, 0x01010101, 0x02020202);
    xp_pa_ld(1, 0x03030303, 0x04040404);
    for (int i = 0; i < 8; ++i) {
        volatile uint32_t *place = stored + i;
        uint32_t ones = 0x01010101, minus = 0xFFFFFFFF, value = i + 3;
        __asm__ volatile("" : "+r"(ones), "+r"(minus), "+r"(value), "+r"(place));
        xp_pa_blkusp_b(0, ones, minus);
        xp_pa_blkusp_b(1, ones, minus);
        *place = value;
        uint32_t read = *place;
        if (read != (uint32_t)i + 3) return 1;
    }
    for (int i = 0; i < 8; ++i)
        if (stored[i] != (uint32_t)i + 3) return 1;
    return xp_pa_rd(0) != 32 || xp_pa_rd(5) != (uint32_t)-64 || xp_pa_rd(10) != 96 || xp_pa_rd(15) != (uint32_t)-128;
}

int main(void) {
    xp_pa_wr(0, SUM);
    if (READ_BEHIND("csrr %[other], minstret") != SUM) return 1;
    if (READ_BEHIND("div %[other], %[value], %[small]") != SUM) return 2;
    if (lost_operand()) return 3;
    if (READ_BEHIND("lw %[other], 0(%[word])") != SUM) return 4;
    return wrong_blocks() ? 5 : 0;
}
