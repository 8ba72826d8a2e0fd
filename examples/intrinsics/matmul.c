/* Eight sums of a 4-bit MatMul, four filters by two pixels, in plain C and with Mac&Load.

       xpulpnn cc examples/intrinsics/matmul.c -o build/matmul.elf
       xpulpnn run build/matmul.elf

   Activations are unsigned, weights signed: xp_mlsdotsup_n. */
#include <stdio.h>
#include <xpulpnn.h>
#include <xpulpnn_rt.h>

#define FILTERS 4
#define PIXELS 2
#define WORDS 32 /* of eight 4-bit elements: a reduction of 256 */

/* Selector of a Mac&Load: which activation, which weight, and which of the two is replaced afterwards by the word at
   the pointer, which then moves on. */
#define A(i) (i)
#define W(i) ((i) << 1)
#define LOAD_A (1 << 3)
#define LOAD_W (1 << 4)

/* One word more at each end: the last step of the loop loads what no step uses. */
static uint32_t pixels[PIXELS][WORDS + 1], filters[FILTERS][WORDS + 1];

static int32_t element(uint32_t word, int lane, int is_signed) {
    uint32_t bits = word >> (4 * lane) & 15;
    return is_signed && bits > 7 ? (int32_t)bits - 16 : (int32_t)bits;
}

static void plain(int32_t sums[FILTERS][PIXELS]) {
    for (int f = 0; f < FILTERS; f++)
        for (int p = 0; p < PIXELS; p++) {
            sums[f][p] = 0;
            for (int k = 0; k < 8 * WORDS; k++)
                sums[f][p] += element(filters[f][k / 8], k % 8, 1) * element(pixels[p][k / 8], k % 8, 0);
        }
}

static void mac_load(int32_t sums[FILTERS][PIXELS]) {
    const uint32_t *a0 = pixels[0], *a1 = pixels[1];
    const uint32_t *w0 = filters[0], *w1 = filters[1], *w2 = filters[2], *w3 = filters[3];
    int32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0, s20 = 0, s21 = 0, s30 = 0, s31 = 0;

    /* fill the NN-RF; the sums of these are of no use */
    xp_mlsdotsup_n(0, &a0, A(0) | LOAD_A);
    xp_mlsdotsup_n(0, &w0, W(0) | LOAD_W);
    xp_mlsdotsup_n(0, &w1, W(1) | LOAD_W);
    xp_mlsdotsup_n(0, &w2, W(2) | LOAD_W);
    xp_mlsdotsup_n(0, &w3, W(3) | LOAD_W);
    for (int k = 0; k < WORDS; k++) {
        xp_mlsdotsup_n(0, &a1, A(1) | LOAD_A);
        s00 = xp_mlsdotsup_n(s00, &w0, A(0) | W(0));
        s01 = xp_mlsdotsup_n(s01, &w0, A(1) | W(0) | LOAD_W);
        s10 = xp_mlsdotsup_n(s10, &w1, A(0) | W(1));
        s11 = xp_mlsdotsup_n(s11, &w1, A(1) | W(1) | LOAD_W);
        s20 = xp_mlsdotsup_n(s20, &w2, A(0) | W(2));
        s21 = xp_mlsdotsup_n(s21, &w2, A(1) | W(2) | LOAD_W);
        s30 = xp_mlsdotsup_n(s30, &a0, A(0) | W(3) | LOAD_A);
        s31 = xp_mlsdotsup_n(s31, &w3, A(1) | W(3) | LOAD_W);
    }
    int32_t found[FILTERS][PIXELS] = {{s00, s01}, {s10, s11}, {s20, s21}, {s30, s31}};
    for (int f = 0; f < FILTERS; f++)
        for (int p = 0; p < PIXELS; p++) sums[f][p] = found[f][p];
}

int main(void) {
    uint32_t random = 1;
    for (int k = 0; k < WORDS; k++) {
        for (int p = 0; p < PIXELS; p++) pixels[p][k] = random = random * 1664525 + 1013904223;
        for (int f = 0; f < FILTERS; f++) filters[f][k] = random = random * 1664525 + 1013904223;
    }
    int32_t expected[FILTERS][PIXELS], found[FILTERS][PIXELS];
    uint32_t begin = xp_cycles();
    plain(expected);
    uint32_t between = xp_cycles();
    mac_load(found);
    uint32_t end = xp_cycles();

    int wrong = 0;
    for (int f = 0; f < FILTERS; f++)
        for (int p = 0; p < PIXELS; p++) wrong += expected[f][p] != found[f][p];
    printf("plain C %lu cycles, Mac&Load %lu cycles, %d wrong\n", (unsigned long)(between - begin),
           (unsigned long)(end - between), wrong);
    return wrong;
}
