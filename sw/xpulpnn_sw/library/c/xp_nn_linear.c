/* Linear layers: the kernel reads the rows of weights where they are.
 *
 * Its four streams begin a quarter of the rows apart, so that block i has row i of each quarter. Rows that are no whole
 * words, and few of them, are computed block by block with four rows that follow each other.
 */

#include "xp_nn.h"

enum { BLOCK = 4, AHEAD_WORDS = 2, MOST_PARAMETERS = 5 * BLOCK, MOST_PARTS = 4 };

typedef void (*kernel_function)(const struct xp_linear_arguments *, uint32_t, uint32_t);

/* Data common to all neurons of a layer. */
struct plan {
    const uint8_t *input;
    uint32_t part_bytes, parts; /* bytes of a part of the input, and parts if it is cut */
    uint32_t row_bytes, row_words;
};

/* Packs to_bits bits of each of the lowest elements of a word side by side. */
static uint32_t narrowed(uint32_t word, uint32_t from_bits, uint32_t to_bits) {
    if (from_bits == 4) {
        word &= 0x33333333;
        word = (word | word >> 2) & 0x0F0F0F0F;
    } else if (to_bits == 2) {
        word &= 0x03030303;
        word = (word | word >> 6) & 0x000F000F;
        return (word | word >> 12) & 0xFF;
    } else {
        word &= 0x0F0F0F0F;
    }
    word = (word | word >> 4) & 0x00FF00FF;
    return (word | word >> 8) & 0xFFFF;
}

/* Widens as many elements as fit into a word, with sign extension if they are signed. */
static uint32_t widened(uint32_t word, uint32_t from_bits, uint32_t to_bits, int is_signed) {
    if (from_bits == 2 && to_bits == 8) {
        word &= 0xFF;
        word = (word | word << 12) & 0x000F000F;
        word = (word | word << 6) & 0x03030303;
        return is_signed ? word | (word & 0x02020202) * 0x7E : word;
    }
    word &= 0xFFFF;
    word = (word | word << 8) & 0x00FF00FF;
    word = (word | word << 4) & 0x0F0F0F0F;
    if (from_bits == 4)
        return is_signed ? word | (word & 0x08080808) * 0x1E : word;
    word = (word | word << 2) & 0x33333333;
    return is_signed ? word | (word & 0x22222222) * 6 : word;
}

/* Returns a word of a part of the input. */
static uint32_t input_word(
    const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, uint32_t word, uint32_t part
) {
    const uint32_t x_bits = kernel->elements.x_bits, row_bits = kernel->row_bits, lanes = WORD_BITS / row_bits;
    const int is_signed = kernel->elements.x_signed;
    const uint8_t *from = (const uint8_t *)layer->input + word * lanes * x_bits / BYTE_BITS;
    uint32_t result = 0;
    if ((word + 1) * lanes > layer->ch_in) {
        for (uint32_t lane = 0; word * lanes + lane < layer->ch_in; ++lane) {
            const int32_t element = xp_nn_element(layer->input, word * lanes + lane, x_bits, is_signed);
            result |= ((uint32_t)(element >> part * row_bits) & ((1u << row_bits) - 1)) << lane * row_bits;
        }
    } else if (x_bits == row_bits) {
        result = *(const uint32_t *)from;
    } else if (x_bits < row_bits) {
        result = widened(*(const uint32_t *)from, x_bits, row_bits, is_signed);
    } else {
        const uint32_t each = WORD_BITS / x_bits * row_bits;
        for (uint32_t place = 0; place < WORD_BITS; place += each, from += WORD)
            result |= narrowed(*(const uint32_t *)from >> part * row_bits, x_bits, row_bits) << place;
    }
    return result;
}

/* Converts the input to row_bits bits, part by part, padded with zeros to whole words. */
static void copy_input(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan) {
    const uint32_t words = plan->part_bytes / WORD, cores = xp_team_size(), lanes = WORD_BITS / kernel->row_bits;
    for (uint32_t word = xp_team_core(); word < words; word += cores) {
        for (uint32_t part = 0; part < plan->parts; ++part) {
            const uint32_t value = word * lanes < layer->ch_in ? input_word(kernel, layer, word, part) : 0;
            ((uint32_t *)plan->input)[part * words + word] = value;
        }
    }
}

static void set_biases(uint32_t *words, const struct xp_nn_layer *layer, uint32_t first, uint32_t step) {
    for (uint32_t i = 0; i < BLOCK; ++i)
        words[i] = (uint32_t)xp_nn_bias(layer, first + i * step);
}

/* Returns the result of a sum of parts. */
static int32_t result_of(
    const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t neuron, int32_t total
) {
    const struct xp_nn_channel it = xp_nn_channel(elements, layer, neuron);
    const int32_t sum = (int32_t)((uint32_t)total + (uint32_t)it.bias);
    if (elements->y_bits == WORD_BITS)
        return sum;
    const int32_t scaled =
        elements->is_wide ? (int32_t)((it.kappa * sum + it.lambda) >> layer->out_shift)
                          : (int32_t)((uint32_t)it.kappa * (uint32_t)sum + (uint32_t)it.lambda) >> layer->out_shift;
    return xp_nn_clipped(scaled, elements->y_bits, elements->y_signed);
}

static void set_result(void *output, uint32_t index, uint32_t bits, int32_t value) {
    if (bits == WORD_BITS)
        ((int32_t *)output)[index] = value;
    else
        xp_nn_set(output, index, bits, value);
}

/* Computes the results of four neurons from first on or, if count is 1, of one. */
static void compute(
    const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan, uint32_t first,
    uint32_t count, void *output
) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t step = count == BLOCK;
    uint32_t parameters[MOST_PARAMETERS] = {0};
    struct xp_linear_arguments arguments = {
        .input = plan->input,
        .weights = (const uint8_t *)layer->weights + first * plan->row_bytes,
        .parameters = parameters,
        .output = output,
        .out_channels = BLOCK,
        .weight_stride = step * plan->row_bytes,
        .shift = xp_nn_shift(elements, layer->out_shift),
        .row_words = plan->row_words,
    };
    if (plan->parts == 1) {
        if (elements->y_bits == WORD_BITS)
            set_biases(parameters, layer, first, step);
        else
            xp_nn_parameters(parameters, elements, layer, first, 1, BLOCK);
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
    for (uint32_t i = 0; i < count; ++i)
        set_result(output, i, elements->y_bits, result_of(elements, layer, first + i, totals[i]));
}

/* Computes all neurons block by block; the last block may overlap the one before. */
static void compute_blocks(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan) {
    const uint32_t outputs = layer->ch_out, y_bits = kernel->elements.y_bits;
    const uint32_t core = xp_team_core(), cores = xp_team_size();
    if (outputs >= BLOCK) {
        const uint32_t blocks = xp_nn_up(outputs, BLOCK) / BLOCK, end = blocks * (core + 1) / cores;
        for (uint32_t block = blocks * core / cores; block < end; ++block) {
            const uint32_t first = xp_nn_least(block * BLOCK, outputs - BLOCK);
            compute(kernel, layer, plan, first, BLOCK, (uint8_t *)layer->output + first * y_bits / BYTE_BITS);
        }
    } else if (core == 0) {
        for (uint32_t neuron = 0; neuron < outputs; ++neuron) {
            int32_t results[BLOCK] = {0};
            compute(kernel, layer, plan, neuron, 1, results);
            const int32_t result = y_bits == WORD_BITS ? results[0] : xp_nn_element(results, 0, y_bits, 0);
            set_result(layer->output, neuron, y_bits, result);
        }
    }
}

/* Distributes packed results, four of a block side by side, to their quarters. */
static void copy_results(const struct xp_nn_layer *layer, const uint32_t *results, uint32_t bits) {
    const uint32_t bytes = layer->ch_out / BLOCK * bits / BYTE_BITS;
    uint8_t *const output = layer->output;
    for (uint32_t i = xp_team_core(); i < bytes; i += xp_team_size()) {
        uint32_t word = results[i];
        if (bits == 4)
            word = xp_nn_swapped(xp_nn_swapped(word, 8, 0x0000FF00), 4, 0x00F000F0);
        else if (bits == 2)
            word = xp_nn_swapped(xp_nn_swapped(word, 12, 0x0000F0F0), 6, 0x00CC00CC);
        for (uint32_t lane = 0; lane < BLOCK; ++lane)
            output[lane * bytes + i] = (uint8_t)(word >> BYTE_BITS * lane);
    }
}

/* Computes all neurons with one call for each part, in quarters; parameters and results share memory. */
static void compute_quarters(
    const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer, const struct plan *plan, uint32_t *memory
) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t core = xp_team_core(), cores = xp_team_size(), y_bits = elements->y_bits;
    const uint32_t outputs = layer->ch_out, quarter = outputs / BLOCK;
    const int is_raw = y_bits == WORD_BITS || plan->parts > 1;
    const uint32_t block_words = is_raw ? BLOCK : xp_nn_channel_words(elements) * BLOCK;
    for (uint32_t block = core; block < quarter; block += cores) {
        uint32_t *const words = memory + block * block_words;
        if (!is_raw)
            xp_nn_parameters(words, elements, layer, block, quarter, BLOCK);
        else if (plan->parts == 1)
            set_biases(words, layer, block, quarter);
        else
            words[0] = words[1] = words[2] = words[3] = 0;
    }
    xp_team_wait();
    uint32_t *const results = memory + quarter * block_words;
    struct xp_linear_arguments arguments = {
        .weights = layer->weights,
        .parameters = memory,
        .out_channels = outputs,
        .weight_stride = quarter * plan->row_bytes,
        .shift = xp_nn_shift(elements, layer->out_shift),
        .row_words = plan->row_words,
    };
    for (uint32_t part = 0; part < plan->parts; ++part) {
        const kernel_function several = part + 1 == plan->parts ? kernel->upper : kernel->sums;
        arguments.input = plan->input + part * plan->part_bytes;
        arguments.output = results + part * outputs;
        (plan->parts == 1 ? kernel->results : several)(&arguments, core, cores);
    }
    xp_team_wait();
    if (!is_raw && quarter * y_bits % BYTE_BITS == 0) {
        copy_results(layer, results, y_bits);
        return;
    }
    /* a core writes whole bytes, at least the results of four neurons */
    const uint32_t end = quarter * (core + 1) / cores * BLOCK;
    uint32_t neuron = quarter * core / cores * BLOCK, block = neuron % quarter, lane = neuron / quarter;
    for (; neuron < end; ++neuron) {
        const uint32_t place = block * BLOCK + lane;
        int32_t result;
        if (plan->parts > 1) {
            uint32_t total = 0;
            for (uint32_t part = 0; part < plan->parts; ++part)
                total += results[part * outputs + place] << part * kernel->row_bits;
            result = result_of(elements, layer, neuron, (int32_t)total);
        } else if (y_bits == WORD_BITS) {
            result = (int32_t)results[place];
        } else {
            result = xp_nn_element(results, place, y_bits, 0);
        }
        set_result(layer->output, neuron, y_bits, result);
        if (++block == quarter) {
            block = 0;
            ++lane;
        }
    }
}

void xp_nn_linear(const struct xp_nn_linear_kernel *kernel, const struct xp_nn_layer *layer) {
    const struct xp_nn_elements *elements = &kernel->elements;
    const uint32_t x_bits = elements->x_bits, outputs = layer->ch_out, narrow = xp_nn_least(x_bits, elements->w_bits);
    xp_nn_check_bytes(layer, "dim_vec", "whole bytes of elements", layer->ch_in, narrow);
    xp_nn_check_bytes(layer, "num_o_neurons", "whole bytes of elements", outputs, elements->y_bits);
    if (elements->y_bits < WORD_BITS)
        xp_nn_check_shift(layer, "out_shift", elements->is_wide, layer->out_shift);
    struct plan plan = {
        .input = layer->input,
        .parts = x_bits > kernel->row_bits ? x_bits / kernel->row_bits : 1,
        .row_bytes = layer->ch_in * elements->w_bits / BYTE_BITS,
    };
    plan.row_words = xp_nn_up(plan.row_bytes, WORD) / WORD;
    /* weights behind a row are multiplied by the zeros that pad the input */
    const uint32_t words = xp_nn_most(xp_nn_up(plan.row_words, kernel->unrolled), kernel->least_words);
    plan.part_bytes = words * WORD * kernel->row_bits / elements->w_bits;
    const int is_copied = x_bits != kernel->row_bits || plan.part_bytes != layer->ch_in * x_bits / BYTE_BITS ||
                          (uintptr_t)layer->input % WORD != 0;
    const int in_quarters = outputs >= BLOCK && outputs % BLOCK == 0 && words * WORD == plan.row_bytes;
    const uint32_t input_bytes = is_copied ? plan.parts * plan.part_bytes + AHEAD_WORDS * WORD : 0;
    uint32_t none = 1;
    uint8_t *const memory = xp_nn_begin(
        layer->name, input_bytes + (in_quarters ? outputs * WORD * (5 + plan.parts) : WORD), 0, 1, &none
    );
    if (is_copied) {
        plan.input = memory;
        copy_input(kernel, layer, &plan);
    }
    if (in_quarters) {
        compute_quarters(kernel, layer, &plan, (uint32_t *)(memory + input_bytes));
    } else {
        xp_team_wait();
        compute_blocks(kernel, layer, &plan);
    }
    xp_nn_end(memory);
}
