/* Convolutions: filter rows are converted to the kernel's streams, then the team computes. */

#include "xp_nn.h"

enum { SPARE_WORDS = 16, MOST_PER_CHUNK = 4 };

/* Not inlined, to save room on the small stacks while the kernel runs. */
#define STEP static __attribute__((noinline))

/* Sizes of a layer for a kernel, in bytes unless said otherwise. */
struct plan {
    uint32_t taps, tap_bytes;         /* pixels of a filter; bytes of the caller's weights per pixel */
    uint32_t words, tap_words;        /* words of a filter row, and of one of its pixels */
    uint32_t used_words;              /* words of a filter row before its padding */
    uint32_t pixel_bytes, source_bytes; /* bytes of an input pixel for the kernel, and of the caller */
    uint32_t row_stride, buffer_stride;
    uint32_t alternating;             /* rows of a block in a stream */
    uint32_t step, out_pixel;         /* output channels at a time; bytes of an output pixel */
    uint32_t direct_rows;             /* output rows that the kernel may write directly */
    uint32_t rest_pixels;             /* other output pixels, padded to whole groups */
};

/* Reorders the words of a chunk like inputs that are cut into parts (lane n*i + j is element i of word j), or widened
   (lane i of word k is element n*i + k). */
static uint32_t even_bytes(uint32_t low, uint32_t high) {
    return (low & 0xFF) | (low >> 8 & 0xFF00) | (high & 0xFF) << 16 | (high & 0xFF0000) << 8;
}

static uint32_t reorder(uint32_t *chunk, uint32_t x_bits, uint32_t w_bits) {
    uint32_t word = chunk[0];
    switch (x_bits << 4 | w_bits) {
    case 0x84:
        chunk[0] = xp_nn_swapped(xp_nn_swapped(word, 8, 0x0000FF00), 4, 0x00F000F0);
        return 1;
    case 0x82:
        chunk[0] = xp_nn_swapped(xp_nn_swapped(word, 12, 0x0000F0F0), 6, 0x00CC00CC);
        return 1;
    case 0x42:
        word = xp_nn_swapped(xp_nn_swapped(word, 8, 0x0000FF00), 4, 0x00F000F0);
        chunk[0] = xp_nn_swapped(word, 2, 0x0C0C0C0C);
        return 1;
    case 0x48:
        chunk[0] = even_bytes(word, chunk[1]);
        chunk[1] = even_bytes(word >> 8, chunk[1] >> 8);
        return 2;
    case 0x24: {
        /* as bytes with a nibble each: even ones of all four halves */
        const uint32_t low = xp_nn_swapped(xp_nn_swapped(word, 4, 0x00F000F0), 8, 0x0000FF00);
        const uint32_t high = xp_nn_swapped(xp_nn_swapped(chunk[1], 4, 0x00F000F0), 8, 0x0000FF00);
        chunk[0] = (low & 0xFFFF) | high << 16;
        chunk[1] = low >> 16 | (high & 0xFFFF0000);
        return 2;
    }
    default: {
        const uint32_t a = even_bytes(word, chunk[1]), b = even_bytes(word >> 8, chunk[1] >> 8);
        const uint32_t c = even_bytes(chunk[2], chunk[3]), d = even_bytes(chunk[2] >> 8, chunk[3] >> 8);
        chunk[0] = even_bytes(a, c);
        chunk[1] = even_bytes(b, d);
        chunk[2] = even_bytes(a >> 8, c >> 8);
        chunk[3] = even_bytes(b >> 8, d >> 8);
        return 4;
    }
    }
}

static uint32_t some_bytes(const uint8_t *bytes, uint32_t count) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < xp_nn_least(count, WORD); ++i)
        word |= (uint32_t)bytes[i] << BYTE_BITS * i;
    return word;
}

/* Copies a filter row whose pixels are not whole words, or whose words are reordered. */
static void copy_row(const struct xp_nn_conv_kernel *kernel, const struct plan *plan, const uint8_t *from, uint32_t *to) {
    uint32_t chunk[MOST_PER_CHUNK];
    const uint32_t x_bits = kernel->elements.x_bits, w_bits = kernel->elements.w_bits;
    const uint32_t size = kernel->reorders && w_bits > x_bits ? w_bits / x_bits : 1;
    for (uint32_t tap = 0; tap < plan->taps; ++tap) {
        for (uint32_t word = 0; word < plan->tap_words; word += size) {
            for (uint32_t i = 0; i < size; ++i) {
                const uint32_t done = (word + i) * WORD;
                chunk[i] = done < plan->tap_bytes ? some_bytes(from + done, plan->tap_bytes - done) : 0;
            }
            if (kernel->reorders)
                (void)reorder(chunk, x_bits, w_bits);
            for (uint32_t i = 0; i < size; ++i, to += plan->alternating)
                *to = chunk[i];
        }
        from += plan->tap_bytes;
    }
}

/* Copies a filter row of whole words, four at a time to avoid load-use stalls. */
static void copy_words(const uint32_t *from, uint32_t *to, uint32_t words, uint32_t step) {
    for (; words >= 4; words -= 4) {
        const uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a;
        to[step] = b;
        to[2 * step] = c;
        to[3 * step] = d;
        from += 4;
        to += 4 * step;
    }
    for (; words > 0; --words, to += step)
        *to = *from++;
}

STEP void copy_filters(
    const struct xp_nn_conv_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan, uint8_t *weights,
    uint32_t *parameters, uint32_t stream_bytes, uint32_t first, uint32_t count
) {
    const uint32_t core = xp_team_core(), cores = xp_team_size(), row_bytes = plan->taps * plan->tap_bytes;
    for (uint32_t row = core; row < xp_nn_up(count, kernel->nch); row += cores) {
        const uint32_t block = row / kernel->nch, lane = row % kernel->nch;
        uint32_t *to = (uint32_t *)(weights + lane % kernel->streams * stream_bytes);
        to += block * plan->words * plan->alternating + lane / kernel->streams;
        const uint8_t *from = (const uint8_t *)layer->weights + (first + row) * row_bytes;
        if (row >= count) {
            for (uint32_t word = 0; word < plan->words; ++word, to += plan->alternating)
                *to = 0;
        } else if (kernel->reorders || plan->tap_bytes % WORD != 0 || plan->tap_bytes != plan->tap_words * WORD) {
            copy_row(kernel, plan, from, to);
        } else {
            copy_words((const uint32_t *)from, to, plan->used_words, plan->alternating);
        }
        for (uint32_t word = plan->used_words; row < count && word < plan->words; ++word)
            to[word * plan->alternating] = 0;
    }
    const uint32_t block_words = kernel->nch * xp_nn_channel_words(&kernel->elements);
    for (uint32_t block = core; block < xp_nn_up(count, kernel->nch) / kernel->nch; block += cores) {
        const uint32_t channel = first + block * kernel->nch;
        xp_nn_parameters(parameters + block * block_words, &kernel->elements, layer, channel, 1, kernel->nch);
    }
}

/* Copies the input with pixels of whole words. */
STEP void copy_input(const struct xp_nn_layer *layer, const struct plan *plan, uint32_t *to) {
    const uint32_t pixels = layer->dim_in_x * layer->dim_in_y, words = plan->pixel_bytes / WORD;
    for (uint32_t pixel = xp_team_core(); pixel < pixels; pixel += xp_team_size()) {
        const uint8_t *from = (const uint8_t *)layer->input + pixel * plan->source_bytes;
        for (uint32_t word = 0; word < words; ++word) {
            const uint32_t done = word * WORD;
            to[pixel * words + word] = done < plan->source_bytes ? some_bytes(from + done, plan->source_bytes - done) : 0;
        }
    }
}

/* Copies the results of a piece of channels to the output. */
STEP void copy_results(
    const struct xp_nn_layer *layer, const struct plan *plan, const uint8_t *from, uint32_t stride, uint32_t offset,
    uint32_t bytes
) {
    const uint32_t first = plan->direct_rows * layer->dim_out_x, pixels = layer->dim_out_y * layer->dim_out_x;
    for (uint32_t pixel = first + xp_team_core(); pixel < pixels; pixel += xp_team_size()) {
        uint8_t *to = (uint8_t *)layer->output + pixel * plan->out_pixel + offset;
        for (uint32_t i = 0; i < bytes; ++i)
            to[i] = from[(pixel - first) * stride + i];
    }
}

STEP struct plan planned(const struct xp_nn_conv_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t x_bits = elements->x_bits, w_bits = elements->w_bits, y_bits = elements->y_bits;
    const uint32_t channels = xp_nn_up(layer->ch_in, WORD_BITS / xp_nn_least(x_bits, w_bits));
    struct plan plan = {
        .taps = layer->dim_kernel_x * layer->dim_kernel_y,
        .tap_bytes = layer->ch_in * w_bits / BYTE_BITS,
        .tap_words = channels * w_bits / WORD_BITS,
        .pixel_bytes = channels * x_bits / BYTE_BITS,
        .source_bytes = layer->ch_in * x_bits / BYTE_BITS,
        .alternating = kernel->nch / kernel->streams,
        .step = kernel->nch > BYTE_BITS / y_bits ? kernel->nch : BYTE_BITS / y_bits,
        .out_pixel = layer->ch_out * y_bits / BYTE_BITS,
    };
    plan.used_words = plan.taps * plan.tap_words;
    plan.words = xp_nn_most(plan.used_words, kernel->least_words);
    plan.row_stride = plan.words * kernel->row_factor * WORD;
    plan.buffer_stride = xp_nn_apart(kernel->npx * plan.row_stride + SPARE_WORDS * WORD);
    /* a kernel writes whole groups of pixels and whole steps of channels */
    plan.direct_rows = layer->ch_out % plan.step == 0 ? layer->dim_out_y : 0;
    while (plan.direct_rows * layer->dim_out_x % kernel->npx != 0)
        --plan.direct_rows;
    plan.rest_pixels = xp_nn_up((layer->dim_out_y - plan.direct_rows) * layer->dim_out_x, kernel->npx);
    return plan;
}

/* Returns whether the pixels of the input are the activation rows. */
static int is_plain(const struct xp_nn_layer *layer) {
    return layer->dim_kernel_x == 1 && layer->dim_kernel_y == 1 && layer->stride_x == 1 && layer->stride_y == 1 &&
           (layer->padding_y_top | layer->padding_x_left) == 0 && layer->dim_out_x == layer->dim_in_x &&
           layer->dim_out_y <= layer->dim_in_y;
}

STEP void compute_in_place(
    const struct xp_nn_conv_kernel *kernel, const struct plan *plan, const struct xp_conv_arguments *of
) {
    const struct xp_matmul_arguments arguments = {
        .input = of->input,
        .weights = of->weights,
        .parameters = of->parameters,
        .output = of->output,
        .out_channels = of->out_channels,
        .out_stride = of->out_stride,
        .weight_stride = of->weight_stride,
        .row_stride = of->pixel_bytes,
        .shift = of->shift,
        .pixels = of->out_height * of->out_width,
        .row_words = plan->words,
    };
    kernel->in_place(&arguments, xp_team_core(), xp_team_size());
}

void xp_nn_conv(const struct xp_nn_conv_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t narrow = xp_nn_least(elements->x_bits, elements->w_bits), y_bits = elements->y_bits;
    xp_nn_check_bytes(layer, "ch_in", "whole bytes of channels", layer->ch_in, narrow);
    xp_nn_check_bytes(layer, "ch_out", "whole bytes of channels", layer->ch_out, y_bits);
    xp_nn_check_window(layer);
    xp_nn_check_shift(layer, "out_shift", elements->is_wide, layer->out_shift);
    const struct plan plan = planned(kernel, layer);
    const uint32_t core = xp_team_core(), cores = xp_team_size();
    const int is_copied = plan.pixel_bytes != plan.source_bytes || (uintptr_t)layer->input % WORD != 0;
    const uint32_t input_bytes = is_copied ? (layer->dim_in_x * layer->dim_in_y + 1) * plan.pixel_bytes : 0;
    const uint32_t row_bytes = plan.words * WORD, spare = kernel->nch * WORD;
    const uint32_t buffers = cores * plan.buffer_stride;
    const uint32_t channel_words = xp_nn_channel_words(elements);
    uint32_t chunk = layer->ch_out;
    uint8_t *memory = xp_nn_begin(
        layer->name,
        /* each stream is padded by at most 32 words */
        input_bytes + buffers + kernel->streams * (xp_nn_apart(0) + 32 * WORD) + spare,
        row_bytes + channel_words * WORD + xp_nn_up(plan.rest_pixels * y_bits, BYTE_BITS) / BYTE_BITS, plan.step, &chunk
    );
    uint8_t *const buffer = memory, *const input = buffer + buffers;
    uint32_t *const parameters = (uint32_t *)(input + input_bytes);
    uint8_t *const weights = (uint8_t *)(parameters + chunk * channel_words);
    if (is_copied)
        copy_input(layer, &plan, (uint32_t *)input);
    for (uint32_t first = 0; first < layer->ch_out; first += chunk) {
        const uint32_t count = xp_nn_least(chunk, layer->ch_out - first), steps = xp_nn_up(count, plan.step);
        const uint32_t stream_bytes = xp_nn_apart(steps / kernel->nch * plan.alternating * row_bytes);
        uint8_t *const rest = weights + kernel->streams * stream_bytes + spare;
        copy_filters(kernel, layer, &plan, weights, parameters, stream_bytes, first, count);
        xp_team_wait();
        const uint32_t offset = first * y_bits / BYTE_BITS;
        struct xp_conv_arguments arguments = {
            .input = is_copied ? input : layer->input,
            .weights = weights,
            .parameters = parameters,
            .output = (uint8_t *)layer->output + offset,
            .buffer = buffer,
            .buffer_stride = plan.buffer_stride,
            .out_channels = count,
            .out_stride = plan.out_pixel,
            .weight_stride = stream_bytes,
            .row_stride = plan.row_stride,
            .shift = xp_nn_shift(&kernel->elements, layer->out_shift),
            .pixel_bytes = plan.pixel_bytes,
            XP_NN_WINDOWS(layer),
        };
        arguments.out_height = plan.direct_rows;
        if (plan.direct_rows > 0 && kernel->in_place != NULL && is_plain(layer))
            compute_in_place(kernel, &plan, &arguments);
        else if (plan.direct_rows > 0)
            kernel->function(&arguments, core, cores);
        if (plan.rest_pixels > 0) {
            arguments.output = rest;
            arguments.out_stride = steps * y_bits / BYTE_BITS;
            arguments.out_height = layer->dim_out_y - plan.direct_rows;
            arguments.pad_top = layer->padding_y_top - plan.direct_rows * layer->stride_y;
            kernel->function(&arguments, core, cores);
            xp_team_wait();
            copy_results(layer, &plan, rest, arguments.out_stride, offset, count * y_bits / BYTE_BITS);
        }
        if (first + count < layer->ch_out)
            xp_team_wait();
    }
    xp_nn_end(memory);
}
