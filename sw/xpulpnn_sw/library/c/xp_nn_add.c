/* Sums of two maps: the input and the weights of a layer. */

#include "xp_nn.h"

static int32_t scaled(const struct xp_nn_factor *scale, int32_t value) {
    return (int32_t)((uint32_t)value * (uint32_t)scale->factor + (uint32_t)scale->summand) >> scale->shift;
}

/* Elements of a map divided by those of a word of the widest map; 0 if maps do not fill whole words. */
static uint32_t steps(const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t wide = xp_nn_most(xp_nn_most(elements->x_bits, elements->w_bits), elements->y_bits);
    const uint32_t bits = layer->dim_in_x * layer->dim_in_y * layer->ch_in * wide;
    const uintptr_t addresses = (uintptr_t)layer->input | (uintptr_t)layer->weights | (uintptr_t)layer->output;
    return bits % WORD_BITS != 0 || addresses % WORD != 0 ? 0 : bits / WORD_BITS;
}

/* Tables of the scaled values of all elements; each core computes a piece. */
static void fill_table(uint8_t *table, const struct xp_nn_factor *scale, uint32_t bits, int is_signed, int y_signed) {
    const uint32_t values = 1u << bits, core = xp_team_core(), cores = xp_team_size(), above = WORD_BITS - bits;
    const int32_t least = y_signed ? INT8_MIN : 0, most = y_signed ? INT8_MAX : UINT8_MAX;
    const uint32_t shift = scale->shift, end = values * (core + 1) / cores;
    for (uint32_t i = values * core / cores; i < end; ++i) {
        const uint32_t element = is_signed ? (uint32_t)((int32_t)(i << above) >> above) : i;
        const int32_t value = (int32_t)(element * (uint32_t)scale->factor + (uint32_t)scale->summand) >> shift;
        table[i] = (uint8_t)(value < least ? least : value > most ? most : value);
    }
}

/* Scaled sums of elements in C: of elements times factors or, with tables, of scaled elements. */
static void compute(
    const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer, const uint8_t *tables,
    const int32_t factors[2], const struct xp_nn_factor *sum
) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t row = layer->dim_in_x * layer->ch_in, cores = xp_team_size();
    for (uint32_t y = xp_team_core(); y < layer->dim_in_y; y += cores) {
        for (uint32_t i = y * row; i < (y + 1) * row; ++i) {
            int32_t a = xp_nn_element(layer->input, i, elements->x_bits, tables == NULL && elements->x_signed);
            int32_t b = xp_nn_element(layer->weights, i, elements->w_bits, tables == NULL && kernel->w_signed);
            if (tables != NULL) {
                a = xp_nn_element(tables, (uint32_t)a, BYTE_BITS, elements->y_signed);
                b = xp_nn_element(tables + (1u << elements->x_bits), (uint32_t)b, BYTE_BITS, elements->y_signed);
            }
            int32_t total = factors[0] * a + factors[1] * b;
            if (sum != NULL)
                total = scaled(sum, total);
            xp_nn_set(layer->output, i, elements->y_bits, xp_nn_clipped(total, elements->y_bits, elements->y_signed));
        }
    }
}

void xp_nn_add(
    const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer, const struct xp_nn_factor *first,
    const struct xp_nn_factor *second, const struct xp_nn_factor *sum
) {
    const struct xp_nn_elements *elements = &kernel->elements;
    xp_nn_check_bytes(layer, "ch_im_in", "whole bytes of channels", layer->ch_in, xp_nn_narrowest(elements));
    xp_nn_check_shift(layer, "shift", 0, first->shift);
    xp_nn_check_shift(layer, "shift", 0, second->shift);
    if (sum != NULL)
        xp_nn_check_shift(layer, "shift", 0, sum->shift);
    const uint32_t core = xp_team_core(), cores = xp_team_size(), count = steps(kernel, layer);
    const uint32_t first_values = 1u << elements->x_bits, second_values = 1u << elements->w_bits;
    uint32_t none = 1;
    uint8_t *const tables = xp_nn_begin(layer->name, first_values + second_values, 0, 1, &none);
    fill_table(tables, first, elements->x_bits, elements->x_signed, elements->y_signed);
    fill_table(tables + first_values, second, elements->w_bits, kernel->w_signed, elements->y_signed);
    xp_team_wait();
    if (count > 0 && sum == NULL) {
        const struct xp_add_arguments arguments = {
            .first = layer->input,
            .second = layer->weights,
            .output = layer->output,
            .first_table = tables,
            .second_table = tables + first_values,
            .steps = count,
        };
        kernel->function(&arguments, core, cores);
    } else {
        compute(kernel, layer, tables, (const int32_t[]){1, 1}, sum);
    }
    xp_nn_end(tables);
}

void xp_nn_add_shift(const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer, int32_t first, int32_t second) {
    xp_nn_check_bytes(layer, "ch_im_in", "whole bytes of channels", layer->ch_in, xp_nn_narrowest(&kernel->elements));
    xp_nn_check_shift(layer, "shift", 0, layer->out_shift);
    const uint32_t core = xp_team_core(), cores = xp_team_size(), count = steps(kernel, layer);
    if (count > 0) {
        const struct xp_add_shift_arguments arguments = {
            .first = layer->input,
            .second = layer->weights,
            .output = layer->output,
            .first_factor = (uint32_t)first,
            .second_factor = (uint32_t)second,
            .shift = layer->out_shift,
            .steps = count,
        };
        kernel->shifted(&arguments, core, cores);
    } else {
        const struct xp_nn_factor shift = {.factor = 1, .shift = layer->out_shift};
        compute(kernel, layer, NULL, (const int32_t[]){first, second}, &shift);
    }
    xp_team_wait();
}
