/* printf on LiteX's UART. */
#include <stdint.h>

#define CSR_ACCESSORS_DEFINED
static inline uint32_t csr_read_simple(unsigned long address) { return *(volatile uint32_t *)address; }
static inline void csr_write_simple(unsigned long value, unsigned long address) { *(volatile uint32_t *)address = value; }
#include <generated/csr.h>

static void put(char character) {
    while (uart_txfull_read()) {
    }
    uart_rxtx_write((uint8_t)character);
}

void xp_write(int file, const void *bytes, uint32_t count) {
    (void)file;
    for (const char *at = bytes, *end = at + count; at < end; ++at) {
        if (*at == '\n')
            put('\r');
        put(*at);
    }
}
