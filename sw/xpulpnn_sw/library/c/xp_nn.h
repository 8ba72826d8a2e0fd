/* Parts of the functions with public names: they take the layouts of the public libraries, convert operands to the
   layouts of the kernels, and call the kernels on every core of the team. */
#ifndef XP_NN_H
#define XP_NN_H

#include <xp_arguments.h>

#include "xp_nn_common.h"

/* Arguments of kernels with windows. */
#define XP_NN_WINDOWS(layer)                                                                       \
    .height = layer->dim_in_y, .width = layer->dim_in_x, .out_height = layer->dim_out_y,           \
    .out_width = layer->dim_out_x, .kernel_height = layer->dim_kernel_y, .kernel_width = layer->dim_kernel_x, \
    .stride_y = layer->stride_y, .stride_x = layer->stride_x, .pad_top = layer->padding_y_top,     \
    .pad_left = layer->padding_x_left

/* A convolution kernel and the layout that it reads. */
struct xp_nn_conv_kernel {
    void (*function)(const struct xp_conv_arguments *, uint32_t, uint32_t);
    void (*in_place)(const struct xp_matmul_arguments *, uint32_t, uint32_t); /* kernel of single pixels, or NULL */
    struct xp_nn_elements elements;
    uint8_t nch, npx, streams;
    uint8_t row_factor; /* bytes of an im2col row for a byte of weights */
    uint8_t least_words; /* fewest words of a filter row */
    uint8_t reorders;   /* whether weights are reordered like inputs that are widened or cut */
};
void xp_nn_conv(const struct xp_nn_conv_kernel *kernel, const struct xp_nn_layer *layer);

/* Kernels of a linear layer, whose inputs are first converted to row_bits bits. */
struct xp_nn_linear_kernel {
    void (*results)(const struct xp_linear_arguments *, uint32_t, uint32_t); /* kernel of rows that are not cut */
    void (*sums)(const struct xp_linear_arguments *, uint32_t, uint32_t);    /* kernel of lower parts, unsigned */
    void (*upper)(const struct xp_linear_arguments *, uint32_t, uint32_t);   /* kernel of the uppermost part */
    struct xp_nn_elements elements;
    uint8_t row_bits, unrolled, least_words;
};
void xp_nn_linear(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer);

/* Depthwise kernels on bytes: for filters of 1, 2 or 3 rows and up to 3 columns with steps of one column, or NULL, and
   for all other filters. */
struct xp_nn_depthwise_kernel {
    void (*kept[3])(const struct xp_depthwise_arguments *, uint32_t, uint32_t);
    void (*general)(const struct xp_depthwise_arguments *, uint32_t, uint32_t);
    struct xp_nn_elements elements;
};
void xp_nn_depthwise(const struct xp_nn_depthwise_kernel *kernel, const struct xp_nn_layer *layer);

/* Kernels of pools for some windows, ended by one without function; other windows are computed in C. */
struct xp_nn_maxpool_kernel {
    void (*function)(const struct xp_maxpool_arguments *, uint32_t, uint32_t);
    uint8_t kernel_height, kernel_width, stride_y, stride_x;
};
void xp_nn_maxpool(
    const struct xp_nn_maxpool_kernel *kernels, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer
);
struct xp_nn_avgpool_kernel {
    void (*function)(const struct xp_avgpool_arguments *, uint32_t, uint32_t);
    void (*scaled)(const struct xp_avgpool_scaled_arguments *, uint32_t, uint32_t);
    uint8_t kernel_height, kernel_width, stride_y, stride_x;
};
/* lambda, shift and summand are used if is_scaled; divides_first: (sum * (lambda / area) + summand) >> shift. */
struct xp_nn_scale {
    int is_scaled, divides_first;
    int32_t lambda, summand;
};
void xp_nn_avgpool(
    const struct xp_nn_avgpool_kernel *kernels, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer,
    const struct xp_nn_scale *scale
);

/* Sum of two maps; the second map is in weights, its width in w_bits. */
struct xp_nn_factor {
    int32_t factor, summand;
    uint32_t shift;
};
struct xp_nn_add_kernel {
    void (*function)(const struct xp_add_arguments *, uint32_t, uint32_t);
    void (*shifted)(const struct xp_add_shift_arguments *, uint32_t, uint32_t);
    struct xp_nn_elements elements;
    uint8_t w_signed;
};
/* Takes the scales of both maps, and of the sum or NULL. */
void xp_nn_add(
    const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer, const struct xp_nn_factor *first,
    const struct xp_nn_factor *second, const struct xp_nn_factor *sum
);
/* (first * a + second * b) >> layer->out_shift. */
void xp_nn_add_shift(const struct xp_nn_add_kernel *kernel, const struct xp_nn_layer *layer, int32_t first, int32_t second);

#endif
