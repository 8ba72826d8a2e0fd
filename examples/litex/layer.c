/* A convolution of 8 bit in plain C, the same for every CPU of LiteX: cycles by LiteX's timer. */
#include <stdint.h>

#define CSR_ACCESSORS_DEFINED
static inline uint32_t csr_read_simple(unsigned long address) { return *(volatile uint32_t *)address; }
static inline void csr_write_simple(unsigned long value, unsigned long address) { *(volatile uint32_t *)address = value; }
#include <generated/csr.h>

enum { SIZE = 8, CHANNELS = 32, OUTPUTS = 16, KERNEL = 3, PADDED = SIZE + KERNEL - 1, SHIFT = 10 };

static uint8_t input[PADDED * PADDED * CHANNELS], output[SIZE * SIZE * OUTPUTS];
static int8_t weights[OUTPUTS * KERNEL * KERNEL * CHANNELS];

void layer(const uint8_t *restrict in, const int8_t *restrict filter, uint8_t *restrict out) {
    for (int y = 0; y < SIZE; ++y)
        for (int x = 0; x < SIZE; ++x)
            for (int o = 0; o < OUTPUTS; ++o) {
                int32_t sum = 0;
                for (int k = 0; k < KERNEL; ++k) {
                    /* the pixels of a row of the kernel lie behind each other, as its weights do */
                    const uint8_t *pixels = in + ((y + k) * PADDED + x) * CHANNELS;
                    const int8_t *row = filter + (o * KERNEL + k) * KERNEL * CHANNELS;
                    for (int i = 0; i < KERNEL * CHANNELS; ++i)
                        sum += pixels[i] * row[i];
                }
                sum >>= SHIFT;
                *out++ = sum < 0 ? 0 : sum > 255 ? 255 : sum;
            }
}

static void put(char character) {
    while (uart_txfull_read()) {
    }
    uart_rxtx_write((uint8_t)character);
}

static void tell(const char *name, uint32_t value) {
    while (*name)
        put(*name++);
    for (int digit = 28; digit >= 0; digit -= 4)
        put("0123456789abcdef"[value >> digit & 15]);
    put('\r');
    put('\n');
}

static uint32_t now(void) {
    timer0_update_value_write(1);
    return ~timer0_value_read();
}

int main(void) {
    uint32_t state = 33, sum = 0;
    for (unsigned i = 0; i < sizeof input; ++i)
        input[i] = (state = state * 1664525 + 1013904223) >> 24;
    for (unsigned i = 0; i < sizeof weights; ++i)
        weights[i] = (int8_t)((state = state * 1664525 + 1013904223) >> 24);
    timer0_en_write(0);
    timer0_load_write(~0u);
    timer0_reload_write(~0u);
    timer0_en_write(1);
    const uint32_t first = now();
    layer(input, weights, output);
    const uint32_t last = now();
    for (unsigned i = 0; i < sizeof output; ++i)
        sum = sum * 31 + output[i];
    tell("cycles ", last - first);
    tell("sum ", sum);
    for (;;) {
    }
}
