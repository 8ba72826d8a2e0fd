#include "reference.h"

/* Element `index` of a packed array. */
static uint32_t element(const uint8_t *packed, int index, int bits) {
    if (bits == 16) return packed[2 * index] | (uint32_t)packed[2 * index + 1] << 8;
    const int position = index * bits;
    return (uint32_t)packed[position >> 3] >> (position & 7) & ((1u << bits) - 1);
}

static int32_t signed_element(const uint8_t *packed, int index, int bits) {
    return (int32_t)(element(packed, index, bits) << (32 - bits)) >> (32 - bits);
}

static void set_element(uint8_t *packed, int index, int bits, uint32_t value) {
    const int bytes = bits / 8;
    for (int i = 0; i < bytes; ++i) packed[index * bytes + i] = (uint8_t)(value >> (8 * i));
    if (bytes == 0) {
        const int position = index * bits;
        uint8_t *place = packed + (position >> 3);
        const uint32_t mask = ((1u << bits) - 1) << (position & 7);
        *place = (uint8_t)((*place & ~mask) | value << (position & 7));
    }
}

void xp_conv_reference(const struct xp_conv *layer, const uint8_t *input, const uint8_t *filters, uint8_t *output) {
    const int bits = layer->bits, channels = layer->channels;
    const int32_t highest = (int32_t)((1u << bits) - 1);
    for (int y = 0; y < layer->out_height; ++y) {
        for (int x = 0; x < layer->out_width; ++x) {
            uint8_t *out = output + (y * layer->out_width + x) * layer->out_pixel_bytes;
            for (int o = 0; o < layer->out_channels; ++o) {
                uint32_t sum = layer->bias ? (uint32_t)layer->bias[o] : 0;
                for (int ky = 0; ky < layer->kernel_height; ++ky) {
                    const int row = y * layer->stride_y - layer->top + ky;
                    for (int kx = 0; kx < layer->kernel_width; ++kx) {
                        const int column = x * layer->stride_x - layer->left + kx;
                        const int inside =
                            row >= 0 && row < layer->height && column >= 0 && column < layer->width;
                        const int place = inside ? (row * layer->width + column) * layer->pixel_bytes : 0;
                        const int first = ((o * layer->kernel_height + ky) * layer->kernel_width + kx) * channels;
                        for (int c = 0; c < channels; ++c) {
                            const uint32_t value =
                                inside ? element(input + place, c, bits) : (uint32_t)layer->outside;
                            sum += value * (uint32_t)signed_element(filters, first + c, bits);
                        }
                    }
                }
                if (layer->kappa) {
                    const uint32_t scaled = (uint32_t)layer->kappa[o] * sum + (uint32_t)layer->lambda[o];
                    int32_t value = (int32_t)scaled >> layer->shift;
                    if (value > highest) value = highest;
                    set_element(out, o, bits, (uint32_t)(value < 0 ? 0 : value));
                } else {
                    set_element(out, o, 32, sum);
                }
            }
        }
    }
}
