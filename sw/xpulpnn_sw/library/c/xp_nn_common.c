/* Memory of the team, parameters of channels, packed elements. */

#include <stdio.h>
#include <stdlib.h>

#include "xp_nn_common.h"

enum { BANKED_WORDS = 32, BANKS_APART = 2 };

uint32_t xp_nn_apart(uint32_t bytes) {
    const uint32_t words = xp_nn_up(bytes, WORD) / WORD;
    const uint32_t turns = words <= BANKS_APART ? 0 : xp_nn_up(words - BANKS_APART, BANKED_WORDS);
    return (turns + BANKS_APART) * WORD;
}

void xp_nn_refuse(const char *name, const char *what, const char *rule, uint32_t value) {
    if (xp_team_core() == 0) {
        fprintf(stderr, "%s: %s must be %s, not %u\n", name, what, rule, (unsigned)value);
        abort();
    }
    for (;;)
        xp_team_wait();
}

static volatile struct {
    uint8_t *memory;
    uint32_t channels;
    int is_far;
} shared;

static void allocate(const char *name, uint32_t fixed, uint32_t per_channel, uint32_t step, uint32_t channels) {
    const uint32_t all = xp_nn_up(channels, step);
    uint32_t count = all;
    shared.is_far = 0;
    while ((shared.memory = xp_team_malloc(fixed + count * per_channel, 0)) == NULL && count > step)
        count = xp_nn_up(count / 2, step);
    if (shared.memory == NULL) {
        count = all;
        shared.is_far = 1;
        shared.memory = xp_team_malloc(fixed + count * per_channel, 1);
    }
    if (shared.memory == NULL) {
        const unsigned least = fixed + step * per_channel;
        fprintf(stderr, "%s: memory left to xp_l1_malloc must be at least %u bytes, not less\n", name, least);
        abort();
    }
    shared.channels = count;
}

uint8_t *xp_nn_begin(const char *name, uint32_t fixed, uint32_t per_channel, uint32_t step, uint32_t *channels) {
    if (xp_team_core() == 0)
        allocate(name, fixed, per_channel, step, *channels);
    xp_team_wait();
    *channels = shared.channels;
    return shared.memory;
}

void xp_nn_end(uint8_t *memory) {
    xp_team_wait();
    if (xp_team_core() == 0)
        xp_team_free(memory, shared.is_far);
}

void xp_nn_check_shift(const struct xp_nn_layer *layer, const char *what, int is_wide, uint32_t shift) {
    if (shift >= (is_wide ? 64 : 32))
        xp_nn_refuse(layer->name, what, is_wide ? "0..63" : "0..31", shift);
}

int32_t xp_nn_bias(const struct xp_nn_layer *layer, uint32_t channel) {
    if (layer->bias == NULL)
        return 0;
    return layer->bias_bytes == 1 ? ((const int8_t *)layer->bias)[channel] : ((const int32_t *)layer->bias)[channel];
}

struct xp_nn_channel xp_nn_channel(const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t channel) {
    struct xp_nn_channel it = {.bias = xp_nn_bias(layer, channel), .kappa = 1};
    if (layer->flags == XP_NN_MULTIPLIED)
        it.kappa = layer->factor;
    if (layer->flags == XP_NN_NORMALISED) {
        if (elements->is_wide) {
            it.kappa = ((const int64_t *)layer->kappa)[channel];
            it.lambda = ((const int64_t *)layer->lambda)[channel];
        } else {
            it.kappa = ((const int32_t *)layer->kappa)[channel];
            it.lambda = ((const int32_t *)layer->lambda)[channel];
        }
    }
    return it;
}

/* Writes 32-bit lambda and kappa of each channel, step words apart. */
static void parameters_of_words(uint32_t *next, const struct xp_nn_layer *layer, uint32_t channel, uint32_t step, uint32_t count) {
    if (layer->flags == XP_NN_NORMALISED) {
        const uint32_t *lambda = (const uint32_t *)layer->lambda + channel, *kappa = (const uint32_t *)layer->kappa + channel;
        for (uint32_t i = 0; i < count; ++i, lambda += step, kappa += step) {
            *next++ = *lambda;
            *next++ = *kappa;
        }
        return;
    }
    const uint32_t factor = layer->flags == XP_NN_MULTIPLIED ? (uint32_t)layer->factor : 1;
    for (uint32_t i = 0; i < count; ++i) {
        *next++ = 0;
        *next++ = factor;
    }
}

/* Writes kappa, and lambda including the bias; or 64-bit lambda and kappa, lower words first, scaled so that the kernel
   needs only the upper word of the sum. */
static void parameters_of_channels(
    uint32_t *next, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t channel, uint32_t step,
    uint32_t count
) {
    const uint32_t missing = layer->out_shift < WORD_BITS ? WORD_BITS - layer->out_shift : 0;
    for (uint32_t i = 0; i < count; ++i, channel += step) {
        const struct xp_nn_channel it = xp_nn_channel(elements, layer, channel);
        if (elements->requantises) {
            *next++ = (uint32_t)it.kappa;
            *next++ = (uint32_t)it.lambda + (uint32_t)it.kappa * (uint32_t)it.bias;
            continue;
        }
        const uint64_t lambda = (uint64_t)it.lambda << missing, kappa = (uint64_t)it.kappa << missing;
        *next++ = (uint32_t)lambda;
        *next++ = (uint32_t)(lambda >> WORD_BITS);
        *next++ = (uint32_t)kappa;
        *next++ = (uint32_t)(kappa >> WORD_BITS);
    }
}

void xp_nn_parameters(
    uint32_t *words, const struct xp_nn_elements *elements, const struct xp_nn_layer *layer, uint32_t first, uint32_t step,
    uint32_t size
) {
    /* the last block may be incomplete */
    const int is_whole = first + (size - 1) * step < layer->ch_out;
    const uint32_t count = is_whole ? size : (layer->ch_out - first + step - 1) / step;
    if (elements->requantises) {
        parameters_of_channels(words, elements, layer, first, step, count);
        for (uint32_t i = 2 * count; i < 2 * size; ++i)
            words[i] = 0;
        return;
    }
    const uint32_t channel_words = elements->is_wide ? 2 * 2 : 2;
    for (uint32_t i = size + count * channel_words; i < size * (channel_words + 1); ++i)
        words[i] = 0;
    for (uint32_t i = layer->bias == NULL ? 0 : count; i < size; ++i)
        words[i] = 0;
    if (layer->bias != NULL && layer->bias_bytes == 1) {
        const int8_t *bias = (const int8_t *)layer->bias + first;
        for (uint32_t i = 0; i < count; ++i, bias += step)
            words[i] = (uint32_t)*bias;
    } else if (layer->bias != NULL) {
        const uint32_t *bias = (const uint32_t *)layer->bias + first;
        for (uint32_t i = 0; i < count; ++i, bias += step)
            words[i] = *bias;
    }
    if (elements->is_wide)
        parameters_of_channels(words + size, elements, layer, first, step, count);
    else
        parameters_of_words(words + size, layer, first, step, count);
}

int32_t xp_nn_element(const void *packed, uint32_t index, uint32_t bits, int is_signed) {
    const uint32_t position = index * bits, above = WORD_BITS - bits;
    const uint32_t byte = ((const uint8_t *)packed)[position / BYTE_BITS] >> position % BYTE_BITS;
    return is_signed ? (int32_t)(byte << above) >> above : (int32_t)(byte << above >> above);
}

int32_t xp_nn_clipped(int64_t value, uint32_t bits, int is_signed) {
    const int32_t least = is_signed ? -(1 << (bits - 1)) : 0, most = least + (1 << bits) - 1;
    return value < least ? least : value > most ? most : (int32_t)value;
}

void xp_nn_set(void *packed, uint32_t index, uint32_t bits, int32_t value) {
    const uint32_t position = index * bits, place = position % BYTE_BITS, mask = ((1u << bits) - 1) << place;
    uint8_t *byte = (uint8_t *)packed + position / BYTE_BITS;
    *byte = (uint8_t)((*byte & ~mask) | ((uint32_t)value << place & mask));
}
