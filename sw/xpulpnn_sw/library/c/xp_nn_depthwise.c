/* Depthwise convolutions: filters are converted to rows of whole words, channels that share bytes are separated. */

#include "xp_nn.h"

enum { MOST_KEPT = 3, SPARE_BYTES = 32 };

/* Lambda including the bias and kappa, or the bias, lambda and kappa of 64 bits. */
static uint32_t channel_words(const struct xp_nn_elements *elements) { return elements->is_wide ? 5 : 2; }

/* Converts filters, of which several channels share bytes, to bytes with rows of whole words. */
static void copy_filters(
    const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t pitch, uint8_t *weights,
    uint32_t *parameters
) {
    const uint32_t bits = elements->w_bits, lanes = BYTE_BITS / bits;
    const uint32_t size = layer->dim_kernel_x * layer->dim_kernel_y;
    for (uint32_t channel = xp_team_core(); channel < layer->ch_out; channel += xp_team_size()) {
        const uint8_t *from = (const uint8_t *)layer->weights + channel / lanes * size;
        uint8_t *to = weights + channel * layer->dim_kernel_y * pitch;
        for (uint32_t y = 0; y < layer->dim_kernel_y; ++y, to += pitch) {
            for (uint32_t x = 0; x < pitch; ++x)
                to[x] = x < layer->dim_kernel_x ? (uint8_t)xp_nn_element(from++, channel % lanes, bits, 1) : 0;
        }
        uint32_t *const words = parameters + channel * channel_words(elements);
        if (elements->is_wide) {
            xp_nn_parameters(words, elements, layer, channel, 1, 1);
        } else {
            const struct xp_nn_channel it = xp_nn_channel(elements, layer, channel);
            words[0] = (uint32_t)it.lambda + (uint32_t)it.kappa * (uint32_t)it.bias;
            words[1] = (uint32_t)it.kappa;
        }
    }
}

/* Converts a map whose bytes hold elements of several channels to a map of bytes for each channel. */
static void take_apart(const struct xp_nn_elements *elements, const uint8_t *from, uint32_t bytes, uint8_t *to, uint32_t map) {
    const uint32_t bits = elements->x_bits, lanes = BYTE_BITS / bits;
    const uint32_t mask = bits == 4 ? 0x0F0F0F0F : 0x03030303, sign = bits == 4 ? 0x08080808 : 0x02020202;
    const uint32_t above = bits == 4 ? 0x1E : 0x7E;
    /* the next map overwrites the overrun of the last word */
    for (uint32_t lane = 0; lane < lanes; ++lane) {
        for (uint32_t byte = 0; byte < bytes; byte += WORD) {
            uint32_t part = *(const uint32_t *)(from + byte) >> lane * bits & mask;
            if (elements->x_signed)
                part |= (part & sign) * above;
            *(uint32_t *)(to + lane * map + byte) = part;
        }
    }
}

void xp_nn_depthwise(const struct xp_nn_depthwise_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    xp_nn_check_bytes(layer, "ch_out", "whole bytes of channels", layer->ch_out, xp_nn_narrowest(elements));
    if (layer->ch_in != layer->ch_out)
        xp_nn_refuse(layer->name, "ch_in", "ch_out", layer->ch_in);
    xp_nn_check_window(layer);
    xp_nn_check_shift(layer, "out_shift", elements->is_wide, layer->out_shift);
    const uint32_t core = xp_team_core(), cores = xp_team_size(), channels = layer->ch_out;
    const uint32_t pitch = xp_nn_up(layer->dim_kernel_x, WORD), filter_bytes = layer->dim_kernel_y * pitch;
    const uint32_t row_bytes = xp_nn_up(layer->padding_x_left + layer->dim_in_x + layer->padding_x_right, WORD);
    const uint32_t padded_rows = layer->padding_y_top + layer->dim_in_y + layer->padding_y_bottom;
    const uint32_t buffer_stride = xp_nn_apart(padded_rows * row_bytes + SPARE_BYTES);
    /* channels that share a byte of the input or of the output are computed by one core */
    const uint32_t x_lanes = BYTE_BITS / elements->x_bits, y_lanes = BYTE_BITS / elements->y_bits;
    const uint32_t group = x_lanes > y_lanes ? x_lanes : y_lanes;
    const uint32_t map = layer->dim_in_x * layer->dim_in_y, whole = xp_nn_up(map, WORD);
    const uint32_t apart = x_lanes > 1 ? xp_nn_apart(group * map + 4 * WORD) : 0;
    const uint32_t words = channel_words(elements);
    uint32_t none = 1;
    uint8_t *memory = xp_nn_begin(
        layer->name, cores * (buffer_stride + apart) + channels * (filter_bytes + words * WORD), 0, 1, &none
    );
    uint32_t *const parameters = (uint32_t *)(memory + cores * (buffer_stride + apart));
    uint8_t *const weights = (uint8_t *)(parameters + channels * words);
    copy_filters(elements, layer, pitch, weights, parameters);
    xp_team_wait();
    const uint32_t rows = layer->dim_kernel_y;
    const int is_kept = rows <= MOST_KEPT && layer->dim_kernel_x <= MOST_KEPT && layer->stride_x == 1 &&
                        kernel->kept[rows - 1] != NULL;
    struct xp_depthwise_arguments arguments = {
        .input = layer->input,
        .weights = weights,
        .parameters = parameters,
        .output = layer->output,
        .buffer = memory,
        .buffer_stride = buffer_stride,
        .channels = channels,
        .row_bytes = layer->dim_in_x,
        .out_pixel_bytes = channels / y_lanes,
        .shift = xp_nn_shift(elements, layer->out_shift),
        XP_NN_WINDOWS(layer),
        .pad_right = layer->padding_x_right,
    };
    void (*const function)(const struct xp_depthwise_arguments *, uint32_t, uint32_t) =
        is_kept ? kernel->kept[rows - 1] : kernel->general;
    if (x_lanes == 1) {
        function(&arguments, core, cores);
    } else {
        uint8_t *const maps = memory + cores * buffer_stride + core * apart;
        arguments.input = maps;
        arguments.buffer = memory + core * buffer_stride;
        for (uint32_t first = core * group; first < channels; first += cores * group) {
            const uint32_t count = xp_nn_least(group, channels - first);
            for (uint32_t channel = 0; channel < count; channel += x_lanes) {
                const uint8_t *from = (const uint8_t *)layer->input + (first + channel) / x_lanes * map;
                take_apart(elements, from, whole, maps + channel * map, map);
            }
            arguments.channels = count;
            arguments.weights = weights + first * filter_bytes;
            arguments.parameters = parameters + first * words;
            arguments.output = (uint8_t *)layer->output + first / y_lanes;
            function(&arguments, 0, 1);
        }
    }
    xp_nn_end(memory);
}
