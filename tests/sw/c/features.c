/* Hardware loops, post-increment, Mac&Load, PULP built-in functions and interrupt handlers against plain C. The exit
   code is the line of the first difference. */
#include "check.h"
#include <pmsis.h>

enum { BYTES = 64, WORDS = BYTES / 4, LINE = 16, FAST_LINE = 17 };
/* Compute&Update always loads, one word beyond the last in the end. */
static int8_t a[BYTES + 4] __attribute__((aligned(4))), b[BYTES] __attribute__((aligned(4)));
static volatile unsigned interrupts, fast_interrupts;

/* Uses both loops, so that the entry must save them. */
void xp_irq_16(void) {
    xp_hwloop_begin(1, outer_irq, 3)
        xp_hwloop_begin(0, inner_irq, 2)
            interrupts++;
        xp_hwloop_end(0, inner_irq)
    xp_hwloop_end(1, outer_irq)
    xp_irq_disable(LINE);
}

/* Replaces the entry. */
__attribute__((interrupt)) void xp_vector_17(void) {
    fast_interrupts++;
    xp_irq_disable(FAST_LINE);
}

static int reference(unsigned words) {
    int sum = 0;
    for (unsigned i = 0; i < 4 * words; i++)
        sum += a[i] * b[i];
    return sum;
}

XP_HWLOOP_FUNCTION static int with_statements(const int8_t *x, const int8_t *y, unsigned words) {
    int sum = 0;
    xp_hwloop_begin(0, statements, words)
        v4s left = (v4s)xp_lw_post(&x, 4);
        sum = xp_sdotsp_b(left, xp_lw_post(&y, 4), sum);
    xp_hwloop_end(0, statements)
    return sum;
}

static int with_one_asm(const int8_t *x, const int8_t *y, unsigned words) {
    int sum = 0;
    uint32_t left, right;
    XP_HWLOOP_ASM(0, words, XP_ASM_lw_post("%[left]", "4", "%[x]") XP_ASM_lw_post("%[right]", "4", "%[y]"),
                  XP_ASM_sdotsp_b("%[sum]", "%[left]", "%[right]"),
                  ([sum] "+r"(sum), [x] "+r"(x), [y] "+r"(y), [left] "=&r"(left), [right] "=&r"(right)), (), ("memory"));
    return sum;
}

XP_HWLOOP_FUNCTION static unsigned nested(unsigned outer, unsigned inner, unsigned *last) {
    unsigned state = 1;
    xp_hwloop_begin(1, rows, outer)
        unsigned row = state & 7;
        xp_hwloop_begin(0, columns, inner)
            state = state * 5 + row;
            if (state & 1)
                *last = state;
            else
                for (unsigned i = 0; i < 3; i++)
                    state ^= i << row;
        xp_hwloop_end(0, columns)
        state ^= 3;
    xp_hwloop_end(1, rows)
    return state;
}

static unsigned nested_reference(unsigned outer, unsigned inner, unsigned *last) {
    unsigned state = 1;
    for (unsigned j = 0; j < outer; j++) {
        unsigned row = state & 7;
        for (unsigned k = 0; k < inner; k++) {
            state = state * 5 + row;
            if (state & 1)
                *last = state;
            else
                for (unsigned i = 0; i < 3; i++)
                    state ^= i << row;
        }
        state ^= 3;
    }
    return state;
}

XP_HWLOOP_FUNCTION static unsigned find(const int8_t *bytes, int8_t wanted, unsigned *even) {
    unsigned place = 0;
    xp_hwloop_begin(0, search, BYTES)
        int8_t byte = (int8_t)xp_lb_post(&bytes, 1);
        if (byte == wanted)
            break;
        place++;
        if (byte & 1)
            continue;
        *even += 1;
    xp_hwloop_end(0, search)
    return place;
}

static void loops(void) {
    for (unsigned words = 0; words <= WORDS; words++) {
        CHECK(with_statements(a, b, words) == reference(words));
        CHECK(with_one_asm(a, b, words) == reference(words));
    }
    for (unsigned outer = 0; outer < 4; outer++)
        for (unsigned inner = 0; inner < 5; inner++) {
            unsigned one = 0, two = 0;
            CHECK(nested(outer, inner, &one) == nested_reference(outer, inner, &two));
            CHECK(one == two);
        }
    unsigned even = 0;
    CHECK(find(a, a[5], &even) == 5 && even == 3 && find(a, 1, &even) == BYTES && even == 3 + BYTES / 2);
}

static void accesses(void) {
    int8_t *to = b;
    int16_t half = 0x7F80;
    int32_t step = 8;
    xp_sb_post(-1, &to, 2);
    xp_sh_postr(half, &to, step);
    CHECK(to == b + 10 && b[0] == -1 && b[2] == (int8_t)0x80 && b[3] == 0x7F);
    xp_sw_rr(0x01020304, b, step);
    const int8_t *from = b;
    CHECK(xp_lb_post(&from, 8) == -1 && from == b + 8);
    CHECK(xp_lw_postr(&from, -step) == 0x01020304 && from == b);
    CHECK(xp_lbu_rr(from, 3) == 0x7F && xp_elw(b, 8) == 0x01020304);
    CHECK(xp_addNi(100, -3, 2) == 24 && xp_insert(0x5A, 7 << 5 | 4, -1) == 0xFFFFF5AF);
    xp_beqimm(step, 8, equal);
    exit(__LINE__);
equal:;
}

static void mac_load(void) {
    int32_t *weights = (int32_t *)a, *activations = (int32_t *)b;
    int sum = 5;
    weights = __builtin_pulp_mlinitspr_v3(1, 0, 2, 0, weights);
    activations = __builtin_pulp_mlinitspr_v3(0, 1, 0, 1, activations);
    for (int i = 0; i < WORDS - 1; i++) {
        sum = __builtin_pulp_mlsdotsp4_v3(1, 0, 2, 1, weights, sum);
        weights = __builtin_pulp_mlupdatespr_v3(weights);
        activations = __builtin_pulp_mlinitspr_v3(0, 1, 0, 1, activations);
    }
    sum = xp_mlsdotsp_b(sum, &weights, 2 << 1 | 1);
    CHECK(sum == 5 + reference(WORDS) && weights == (int32_t *)a + WORDS);
    int32_t *more = (int32_t *)a;
    int other = 0;
    xp_cu_load(&more, 3);
    for (int i = 0; i < WORDS - 1; i++)
        other = xp_cusdotsp_b_3(other, &more, ((int32_t *)b)[i]);
    other = xp_cusdotsp_b_3(other, &more, ((int32_t *)b)[WORDS - 1]);
    CHECK(other == reference(WORDS));
}

static void built_in_functions(int one, int size, int offset) {
    v4s packed = __builtin_pulp_pack4(one, -2, 3, -4), twice = __builtin_pulp_add4(packed, packed);
    CHECK(packed[0] == 1 && packed[1] == -2 && packed[2] == 3 && packed[3] == -4);
    CHECK(twice[1] == -4 && twice[2] == 6);
    v2s pair = __builtin_pulp_pack2(one, -300);
    CHECK(pair[0] == 1 && pair[1] == -300);
    v4u large = __builtin_pulp_maxu4(packed, (v4s){2, 2, 2, 2});
    CHECK(large[0] == 2 && large[1] == 254 && large[2] == 3 && large[3] == 252);
    v4s small = __builtin_pulp_min4(packed, __builtin_pulp_neg4(packed));
    CHECK(small[0] == -1 && small[1] == -2 && small[2] == -3 && small[3] == -4);
    CHECK(__builtin_pulp_sdotusp4(large, packed, 7) == 7 + 2 - 508 + 9 - 1008);
    CHECK(__builtin_pulp_dotspsc4(packed, 3) == -6);
    CHECK(__builtin_pulp_sdotsp8(0x0000F071, 0x00000F23, 0) == 3 + 14 && __builtin_pulp_maxu8(0x1F, 0xF1) == 0xFF);
    v4s shuffled = __builtin_pulp_shuffleb(packed, ((v4s){3, 2, 1, 0}));
    CHECK(shuffled[0] == -4 && shuffled[3] == 1);
    v4s mixed = __builtin_pulp_shuffle4b(packed, shuffled, ((v4s){0, 4, 1, 7}));
    CHECK(mixed[0] == 1 && mixed[1] == -4 && mixed[2] == -2 && mixed[3] == 1);

    CHECK(__builtin_pulp_clip(300 * one, -128, 127) == 127 && __builtin_pulp_clip_r(-300 * one, 127) == -128);
    CHECK(__builtin_pulp_clipu_r(300 * one, 255) == 255 && __builtin_pulp_clipu(-one, 0, 255) == 0);
    CHECK(__builtin_pulp_clip_r(77 * one, 50) == 50 && __builtin_pulp_clipu_r(77 * one, 50 * one) == 50);
    CHECK(__builtin_pulp_clip_r(5 * one, 0) == 0 && __builtin_pulp_clip_r(-5 * one, 0) == -1);
    CHECK(__builtin_pulp_bextract(0xF50 * one, 4, 4) == 5 && __builtin_pulp_bextract(0xF90 * one, 4, 4) == -7);
    CHECK(__builtin_pulp_bextractu(0xF90, size, offset) == 9 && __builtin_pulp_bextract(0xF90, size, offset) == -7);
    int8_t mask = (int8_t)0xF0, keep = ~mask, shift = 4;
    CHECK((uint8_t)__builtin_pulp_binsert(0x2A, keep, 0x13 * one, mask, shift) == 0x3A);
    CHECK(__builtin_pulp_binsert(-1, ~(0xF << offset), 5 * one, 0xF << offset, offset) == (int)0xFFFFFF5F);
    CHECK(__builtin_binsert(-1, ~0xF0, 5 * one, 0xF0, 4) == (int)0xFFFFFF5F);
    CHECK(__builtin_pulp_binsert_r(-1, 5 * one, 3 << 5 | 4) == (int)0xFFFFFF5F);
    CHECK(__builtin_pulp_fl1(8 * one) == 3 && __builtin_pulp_cnt(0xFF * one) == 8 && __builtin_pulp_clb(one) == 30);
    CHECK(__builtin_pulp_mac(6, -7, one) == -41 && __builtin_pulp_msu(6, 7, one) == -41);
    CHECK(__builtin_pulp_addRN(10, 3 * one, 2, 2) == 3 && __builtin_pulp_subN_r(10, 3 * one, one) == 3);
    CHECK(__builtin_pulp_macsRN(-100, 3 * one, 20, 3, 4) == -35 && __builtin_pulp_mulhhsN(2 << 16, 9 << 16, 1) == 9);
    CHECK(__builtin_pulp_maxsi(-one, 1) == 1 && __builtin_pulp_minusi(-one, 1) == 1);
}

XP_HWLOOP_FUNCTION static void handlers(void) {
    int turns = 0, sum = 0;
    xp_irq_on();
    xp_hwloop_begin(0, interrupted, 20)
        turns++;
        if (turns == 5)
            xp_irq_enable(LINE);
        sum += turns;
    xp_hwloop_end(0, interrupted)
    CHECK(interrupts == 6 && turns == 20 && sum == 210);
    xp_irq_off();
    xp_irq_enable(LINE);
    xp_wait_for_interrupt();
    CHECK(interrupts == 6);
    xp_irq_on();
    CHECK(interrupts == 12);
    xp_irq_enable(FAST_LINE);
    CHECK(fast_interrupts == 1 && interrupts == 12);
    xp_irq_off();
}

/* ecall doubles a0 and goes on behind it. */
void xp_exception(struct xp_frame *frame) {
    CHECK(frame->mcause == 11 && frame->x[0] == 0);
    frame->x[10] *= 2;
    frame->mepc += 4;
}

static void exceptions(void) {
    register int value __asm__("a0") = 21;
    register int kept __asm__("s5") = 77;
    __asm__ volatile("ecall" : "+r"(value), "+r"(kept) : : "memory");
    CHECK(value == 42 && kept == 77);
}

int main(void) {
    for (int i = 0; i < BYTES; i++) {
        a[i] = (int8_t)(37 * i - 90);
        b[i] = (int8_t)(100 - 11 * i);
    }
    loops();
    mac_load();
    built_in_functions(1, 4, 4);
    exceptions();
    handlers();
    accesses();
    return 0;
}
