/* A layer with its parameters and elements, the memory of the team, and packed elements (xp_nn_common.c). */
#ifndef XP_NN_COMMON_H
#define XP_NN_COMMON_H

#include <stddef.h>
#include <stdint.h>

/* Functions of the runtime for the team. */
unsigned xp_team_core(void);
unsigned xp_team_size(void);
void xp_team_wait(void);
void *xp_team_malloc(uint32_t size, int is_far);
void xp_team_free(void *memory, int is_far);

/* A layer as its caller describes it; fields have the names of the parameters. */
struct xp_nn_layer {
    const char *name; /* name of the called function */
    const void *input, *weights, *bias, *kappa, *lambda;
    void *output;
    uint32_t bias_bytes; /* 1 or 4 */
    int32_t factor;
    uint32_t out_shift;
    uint32_t flags;
    uint32_t dim_in_x, dim_in_y, ch_in;
    uint32_t dim_out_x, dim_out_y, ch_out;
    uint32_t dim_kernel_x, dim_kernel_y;
    uint32_t padding_y_top, padding_y_bottom, padding_x_left, padding_x_right;
    uint32_t stride_x, stride_y;
};

/* Conversion of accumulators to results, by the two flags of the public functions. */
enum { XP_NN_SHIFTED, XP_NN_MULTIPLIED, XP_NN_NORMALISED };
static inline uint32_t xp_nn_flags(int relu, int batch_norm) {
    return relu == 0 ? XP_NN_SHIFTED : batch_norm == 0 ? XP_NN_MULTIPLIED : XP_NN_NORMALISED;
}

/* Elements of a function. */
struct xp_nn_elements {
    uint8_t x_bits, w_bits, y_bits;
    uint8_t x_signed, y_signed;
    uint8_t is_wide;     /* kappa and lambda have 64 bits */
    uint8_t requantises; /* results by pv.rq: lambda includes the bias */
};

enum { WORD = 4, BYTE_BITS = 8, WORD_BITS = 32 };

static inline uint32_t xp_nn_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
static inline uint32_t xp_nn_least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t xp_nn_most(uint32_t a, uint32_t b) { return a > b ? a : b; }
/* Swaps the bits of a mask with the bits a distance above. */
static inline uint32_t xp_nn_swapped(uint32_t word, uint32_t distance, uint32_t mask) {
    const uint32_t different = (word ^ word >> distance) & mask;
    return word ^ different ^ different << distance;
}

/* Bytes between pieces that are read side by side: two banks apart in a memory of up to 32 banks. */
uint32_t xp_nn_apart(uint32_t bytes);

/* Ends the program: `what` of a layer must be `rule`, not `value`. */
void xp_nn_refuse(const char *name, const char *what, const char *rule, uint32_t value);

/* Ends the program unless the elements fill whole bytes. */
static inline void xp_nn_check_bytes(
    const struct xp_nn_layer *layer, const char *what, const char *rule, uint32_t count, uint32_t bits
) {
    if (count == 0 || count * bits % BYTE_BITS != 0)
        xp_nn_refuse(layer->name, what, rule, count);
}
static inline uint32_t xp_nn_narrowest(const struct xp_nn_elements *elements) {
    return xp_nn_least(xp_nn_least(elements->x_bits, elements->w_bits), elements->y_bits);
}

/* Allocates memory of the team for fixed bytes and for as many channels as there is room for, and sets *channels, a
   multiple of step up to its value; without room in the TCDM, memory elsewhere. All cores must call both functions. */
uint8_t *xp_nn_begin(const char *name, uint32_t fixed, uint32_t per_channel, uint32_t step, uint32_t *channels);
void xp_nn_end(uint8_t *memory);

/* Bias, kappa and lambda of a channel. */
struct xp_nn_channel {
    int32_t bias;
    int64_t kappa, lambda;
};
int32_t xp_nn_bias(const struct xp_nn_layer *layer, uint32_t channel);
struct xp_nn_channel xp_nn_channel(const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t channel);

/* Writes the parameters of a block of size channels, from first on in steps; channels behind the layer's are zeros:
   biases, then lambda and kappa of each; for pv.rq kappa and lambda of each. xp_nn_shift is the kernel's shift. */
void xp_nn_parameters(
    uint32_t *words, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t first, uint32_t step,
    uint32_t size
);
static inline uint32_t xp_nn_channel_words(const struct xp_nn_elements *elements) {
    return elements->is_wide ? 5 : elements->requantises ? 2 : 3;
}
static inline uint32_t xp_nn_shift(const struct xp_nn_elements *elements, uint32_t shift) {
    return elements->is_wide == 0 ? shift : shift > 32 ? shift - 32 : 0;
}
/* Ends the program for a shift without an instruction. */
void xp_nn_check_shift(const struct xp_nn_layer *layer, const char *what, int is_wide, uint32_t shift);

/* Reads an element of a packed array; clips to the range of results; writes into a byte that only one core writes. */
int32_t xp_nn_element(const void *packed, uint32_t index, uint32_t bits, int is_signed);
int32_t xp_nn_clipped(int64_t value, uint32_t bits, int is_signed);
void xp_nn_set(void *packed, uint32_t index, uint32_t bits, int32_t value);

/* Ends the program for steps or windows of 0. */
static inline void xp_nn_check_window(const struct xp_nn_layer *layer) {
    if (layer->stride_x == 0 || layer->stride_y == 0)
        xp_nn_refuse(layer->name, "stride", "at least 1", 0);
    if (layer->dim_kernel_x == 0 || layer->dim_kernel_y == 0)
        xp_nn_refuse(layer->name, "dim_kernel", "at least 1", 0);
}

#endif
