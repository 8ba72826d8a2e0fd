/* Linear layers: the kernel reads four rows of weights where they are, block after block. */

#include "xp_nn.h"

enum { WORD = 4, BYTE_BITS = 8, WORD_BITS = 32, BLOCK = 4, AHEAD_WORDS = 2, MOST_PARAMETERS = 5 * BLOCK, MOST_PARTS = 4 };

typedef void (*kernel_function)(const struct xp_linear_arguments *, uint32_t, uint32_t);

/* What is the same for all blocks of a layer. */
struct plan {
    const uint8_t *input;
    uint32_t part_bytes, parts; /* of the input, if it is cut */
    uint32_t row_bytes, row_words;
};

/* The elements of the input row_bits wide, each part of all of them one after the other, and zeros up to whole words. */
static void copy_input(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan) {
    const uint32_t x_bits = kernel->elements.x_bits, row_bits = kernel->row_bits, core = xp_team_core();
    const uint32_t words = plan->part_bytes / WORD, lanes = WORD_BITS / row_bits, cores = xp_team_size();
    const uint8_t *from = layer->input;
    for (uint32_t word = core; word < words; word += cores) {
        uint32_t parts[MOST_PARTS] = {0};
        for (uint32_t lane = 0; lane < lanes && word * lanes + lane < layer->channels; ++lane) {
            const int32_t element = xp_nn_element(from, word * lanes + lane, x_bits, kernel->elements.x_signed);
            for (uint32_t part = 0; part < plan->parts; ++part)
                parts[part] |= ((uint32_t)(element >> part * row_bits) & ((1u << row_bits) - 1)) << lane * row_bits;
        }
        for (uint32_t part = 0; part < plan->parts; ++part)
            ((uint32_t *)plan->input)[part * words + word] = parts[part];
    }
}

/* The results of count neurons from first on: four of consecutive rows, or one. */
static void compute(
    const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan, uint32_t first,
    uint32_t count, void *output
) {
    const struct xp_nn_elements *elements = &kernel->elements;
    uint32_t parameters[MOST_PARAMETERS] = {0};
    struct xp_linear_arguments arguments = {
        .input = plan->input,
        .weights = (const uint8_t *)layer->weights + first * plan->row_bytes,
        .parameters = parameters,
        .output = output,
        .out_channels = BLOCK,
        .weight_stride = count == BLOCK ? plan->row_bytes : 0,
        .shift = xp_nn_shift(elements, layer->shift),
        .row_words = plan->row_words,
    };
    if (plan->parts == 1) {
        if (elements->y_bits == WORD_BITS) {
            for (uint32_t i = 0; i < count; ++i)
                parameters[i] = (uint32_t)xp_nn_channel(elements, layer, first + i).bias;
        } else if (count == BLOCK) {
            (void)xp_nn_parameters(parameters, elements, layer, first, BLOCK);
        } else {
            struct xp_nn_layer one = *layer;
            one.out_channels = first + 1;
            (void)xp_nn_parameters(parameters, elements, &one, first, BLOCK);
        }
        kernel->results(&arguments, 0, 1);
        return;
    }
    int32_t sums[BLOCK], totals[BLOCK] = {0};
    arguments.output = sums;
    for (uint32_t part = 0; part < plan->parts; ++part) {
        const kernel_function function = part + 1 == plan->parts ? kernel->upper : kernel->sums;
        arguments.input = plan->input + part * plan->part_bytes;
        function(&arguments, 0, 1);
        for (uint32_t i = 0; i < count; ++i)
            totals[i] += (int32_t)((uint32_t)sums[i] << part * kernel->row_bits);
    }
    for (uint32_t i = 0; i < count; ++i) {
        const struct xp_nn_channel it = xp_nn_channel(elements, layer, first + i);
        const int32_t sum = totals[i] + it.bias;
        if (elements->y_bits == WORD_BITS) {
            ((int32_t *)output)[i] = sum;
            continue;
        }
        const int64_t scaled = elements->is_wide
                                   ? (it.kappa * sum + it.lambda) >> layer->shift
                                   : (int32_t)((uint32_t)it.kappa * (uint32_t)sum + (uint32_t)it.lambda) >> layer->shift;
        xp_nn_set(output, i, elements->y_bits, xp_nn_clipped((int32_t)scaled, elements->y_bits, elements->y_signed));
    }
}

void xp_nn_linear(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t core = xp_team_core(), cores = xp_team_size(), x_bits = elements->x_bits, y_bits = elements->y_bits;
    const uint32_t inputs = layer->channels, outputs = layer->out_channels;
    const uint32_t narrow = x_bits < elements->w_bits ? x_bits : elements->w_bits;
    if (inputs == 0 || inputs * narrow % BYTE_BITS != 0)
        xp_nn_refuse(layer->name, "dim_vec", "whole bytes of elements", inputs);
    if (outputs * y_bits % BYTE_BITS != 0)
        xp_nn_refuse(layer->name, "num_o_neurons", "whole bytes of elements", outputs);
    if (y_bits < WORD_BITS)
        xp_nn_check_shift(elements, layer);
    struct plan plan = {
        .input = layer->input,
        .parts = x_bits > kernel->row_bits ? x_bits / kernel->row_bits : 1,
        .row_bytes = inputs * elements->w_bits / BYTE_BITS,
    };
    plan.row_words = xp_nn_up(plan.row_bytes, WORD) / WORD;
    /* what a row is filled up with is multiplied by what lies behind it */
    const uint32_t words = xp_nn_up(plan.row_words, kernel->unrolled);
    plan.part_bytes = words * WORD * kernel->row_bits / elements->w_bits;
    const int is_copied = x_bits != kernel->row_bits || plan.part_bytes != inputs * x_bits / BYTE_BITS ||
                          (uintptr_t)layer->input % WORD != 0;
    uint8_t *memory = NULL;
    if (is_copied) {
        uint32_t none = 1;
        memory = xp_nn_begin(layer->name, plan.parts * plan.part_bytes + AHEAD_WORDS * WORD, 0, 1, &none);
        plan.input = memory;
        copy_input(kernel, layer, &plan);
        xp_team_wait();
    }
    if (outputs >= BLOCK) {
        const uint32_t blocks = xp_nn_up(outputs, BLOCK) / BLOCK, end = blocks * (core + 1) / cores;
        for (uint32_t block = blocks * core / cores; block < end; ++block) {
            /* the last one may have neurons of the one before */
            const uint32_t first = xp_nn_least(block * BLOCK, outputs - BLOCK);
            compute(kernel, layer, &plan, first, BLOCK, (uint8_t *)layer->output + first * y_bits / BYTE_BITS);
        }
    } else if (core == 0) {
        for (uint32_t neuron = 0; neuron < outputs; ++neuron) {
            int32_t results[BLOCK] = {0};
            compute(kernel, layer, &plan, neuron, 1, results);
            if (y_bits == WORD_BITS)
                ((int32_t *)layer->output)[neuron] = results[0];
            else
                xp_nn_set(layer->output, neuron, y_bits, xp_nn_element(results, 0, y_bits, 0));
        }
    }
    if (is_copied)
        xp_nn_end(memory);
    else
        xp_team_wait();
}
