/* Layers in plain C for RV32IM, as a baseline and to check kernels against. */
#ifndef XP_REFERENCE_H
#define XP_REFERENCE_H

#include <stdint.h>

/* A convolution. Feature maps are HWC, filters [out][ky][kx][in]; elements are packed little-end-first, activations
   unsigned, weights signed. `pixel_bytes` and `out_pixel_bytes` are the distances of two pixels of the input and of the
   output, `bits` the width of an element, `outside` the value around the input. A null pointer leaves out the bias or
   the requantisation: out = clip((kappa * acc + lambda) >> shift, 0, 2^bits - 1); without it, out = acc (32 bits). */
struct xp_conv {
    int height, width, channels, pixel_bytes;
    int out_height, out_width, out_channels, out_pixel_bytes;
    int kernel_height, kernel_width, stride_y, stride_x, top, left, outside;
    int bits, shift;
    const int32_t *bias, *kappa, *lambda;
};

void xp_conv_reference(const struct xp_conv *layer, const uint8_t *input, const uint8_t *filters, uint8_t *output);

#endif
