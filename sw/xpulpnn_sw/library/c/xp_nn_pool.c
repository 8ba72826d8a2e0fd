/* Pools: kernels for some windows; other windows, and pixels that are not whole words, in C. */

#include "xp_nn.h"

/* Common first arguments of the kernels of pools. */
#define ARGUMENTS(layer, in_bytes, out_bytes)                                                      \
    .input = layer->input, .output = layer->output, .pixel_bytes = in_bytes, .out_pixel_bytes = out_bytes, \
    XP_NN_WINDOWS(layer)

/* Advances to the kernel of a window and stride, or to the end of the kernels. */
#define FIND(kernel, layer)                                                                        \
    while (kernel->function != NULL &&                                                             \
           (kernel->kernel_height != layer->dim_kernel_y || kernel->kernel_width != layer->dim_kernel_x || \
            kernel->stride_y != layer->stride_y || kernel->stride_x != layer->stride_x))           \
    ++kernel

/* Returns the row or column of the map at a place of the padded map, or the nearest end of the map. */
static uint32_t inside(uint32_t place, uint32_t padding, uint32_t size) {
    return place < padding ? 0 : xp_nn_least(place - padding, size);
}

static void check(const struct xp_nn_elements *elements, const struct xp_nn_layer *layer) {
    xp_nn_check_bytes(layer, "ch_im_in", "whole bytes of channels", layer->ch_in, xp_nn_narrowest(elements));
    xp_nn_check_window(layer);
}

/* Returns whether pixels are whole words, as the kernels need. */
static int is_whole(const struct xp_nn_elements *elements, const struct xp_nn_layer *layer) {
    const uint32_t narrow = xp_nn_narrowest(elements);
    const uintptr_t addresses = (uintptr_t)layer->input | (uintptr_t)layer->output;
    return (layer->ch_in * narrow / BYTE_BITS | addresses) % WORD == 0 && layer->ch_in * narrow % 32 == 0;
}

static int32_t average(const struct xp_nn_layer *layer, const struct xp_nn_scale *scale, int32_t sum, int32_t factor) {
    const int32_t area = (int32_t)(layer->dim_kernel_x * layer->dim_kernel_y);
    if (!scale->is_scaled)
        return sum / area;
    const int32_t quotient = (int32_t)((uint32_t)sum * (uint32_t)factor);
    const int32_t scaled = scale->divides_first ? quotient : quotient / area;
    return (int32_t)((uint32_t)scaled + (uint32_t)scale->summand) >> layer->out_shift;
}

/* Computes windows in C: their maxima or, with a scale, their averages. */
static void compute(
    const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, const struct xp_nn_scale *scale, int32_t factor
) {
    const uint32_t bits = elements->x_bits, cores = xp_team_size();
    for (uint32_t y = xp_team_core(); y < layer->dim_out_y; y += cores) {
        const uint32_t above = y * layer->stride_y, first_y = inside(above, layer->padding_y_top, layer->dim_in_y);
        const uint32_t end_y = inside(above + layer->dim_kernel_y, layer->padding_y_top, layer->dim_in_y);
        for (uint32_t x = 0; x < layer->dim_out_x; ++x) {
            const uint32_t before = x * layer->stride_x, first_x = inside(before, layer->padding_x_left, layer->dim_in_x);
            const uint32_t end_x = inside(before + layer->dim_kernel_x, layer->padding_x_left, layer->dim_in_x);
            const uint32_t place = (y * layer->dim_out_x + x) * layer->ch_in;
            for (uint32_t channel = 0; channel < layer->ch_in; ++channel) {
                int32_t result = scale == NULL && elements->x_signed ? -(1 << (bits - 1)) : 0;
                for (uint32_t row = first_y; row < end_y; ++row) {
                    for (uint32_t column = first_x; column < end_x; ++column) {
                        const uint32_t index = (row * layer->dim_in_x + column) * layer->ch_in + channel;
                        const int32_t element = xp_nn_element(layer->input, index, bits, elements->x_signed);
                        result = scale != NULL ? result + element : element > result ? element : result;
                    }
                }
                if (scale != NULL)
                    result = xp_nn_clipped(average(layer, scale, result, factor), elements->y_bits, elements->y_signed);
                xp_nn_set(layer->output, place + channel, elements->y_bits, result);
            }
        }
    }
}

void xp_nn_maxpool(
    const struct xp_nn_maxpool_kernel *kernels, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer
) {
    check(elements, layer);
    const uint32_t pixel_bytes = layer->ch_in * elements->x_bits / BYTE_BITS;
    const struct xp_nn_maxpool_kernel *kernel = kernels;
    FIND(kernel, layer);
    if (kernel->function != NULL && is_whole(elements, layer)) {
        const struct xp_maxpool_arguments arguments = {ARGUMENTS(layer, pixel_bytes, pixel_bytes)};
        kernel->function(&arguments, xp_team_core(), xp_team_size());
    } else {
        compute(elements, layer, NULL, 0);
    }
    xp_team_wait();
}

void xp_nn_avgpool(
    const struct xp_nn_avgpool_kernel *kernels, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer,
    const struct xp_nn_scale *scale
) {
    check(elements, layer);
    if (scale->is_scaled)
        xp_nn_check_shift(layer, "out_shift", elements->is_wide, layer->out_shift);
    const uint32_t core = xp_team_core(), cores = xp_team_size();
    const int32_t area = (int32_t)(layer->dim_kernel_x * layer->dim_kernel_y);
    const int32_t factor = scale->divides_first ? scale->lambda / area : scale->lambda;
    const struct xp_nn_avgpool_kernel *kernel = kernels;
    FIND(kernel, layer);
    /* the kernel divides the product by the area, exactly if the factor is a multiple of the area */
    const int64_t multiple = scale->divides_first ? (int64_t)factor * area : factor;
    const int64_t most = multiple * area << elements->x_bits;
    if (kernel->function != NULL && is_whole(elements, layer) && multiple >= 0 && most < INT32_MAX) {
        struct xp_avgpool_scaled_arguments arguments = {
            ARGUMENTS(layer, layer->ch_in * elements->x_bits / BYTE_BITS, layer->ch_in * elements->y_bits / BYTE_BITS),
            .factor = (uint32_t)multiple,
            .summand = (uint32_t)scale->summand,
            .shift = layer->out_shift,
        };
        if (scale->is_scaled)
            kernel->scaled(&arguments, core, cores);
        else /* whose arguments begin with the same fields */
            kernel->function((const struct xp_avgpool_arguments *)(const void *)&arguments, core, cores);
    } else {
        compute(elements, layer, scale, factor);
    }
    xp_team_wait();
}
