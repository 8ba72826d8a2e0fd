// Addresses of a cluster as its cores use them. Designs without banks have memory everywhere.
#pragma once
#include <cstdint>

#include "schema.hpp"

namespace harness {

class AddressMap {
  public:
    // Of the TCDM, whose two other addresses stand for the same words.
    static bool is_tcdm(uint32_t address) {
        const uint32_t place = address & ~(TCDM_SPACE - 1);
        return place == TCDM_BASE || place == TCDM_ALIAS || place == TEST_SET;
    }

    // The address under which a word is found in memory.
    static uint32_t canonical(uint32_t address) {
        return is_tcdm(address) ? TCDM_BASE | (address & (TCDM_SPACE - 1)) : address;
    }

    // A load marks the word.
    static bool tests_and_sets(uint32_t address) { return (address & ~(TCDM_SPACE - 1)) == TEST_SET; }

    // Registers inside the cluster.
    static bool is_device(uint32_t address) { return (address & ~(TCDM_SPACE - 1)) == CONTROL; }

    // Whether anything answers at `address`, which is the TCDM's or a device's; others are not known here.
    static bool answers(uint32_t address, uint32_t tcdm_bytes) {
        if (is_tcdm(address)) return (address & (TCDM_SPACE - 1)) < tcdm_bytes;
        if (!is_device(address)) return true;
        const uint32_t block = address - address % BLOCK_BYTES;
        if (REFILL_PORTS && block == ICACHE_CONTROL) return true;
        if (DMA_PORTS && (block == DMA || block == PRIVATE_DMA)) return true;
        return block == CONTROL || block == TIMER || block == EVENT_UNIT || block == EVENT_UNIT + BLOCK_BYTES ||
               block == PRIVATE_EVENT_UNIT;
    }

    // What a wait of the core's port means for an access to `address`.
    static uint32_t wait(uint32_t cause, uint32_t address) {
        if (is_tcdm(address)) return cause == GRANT ? uint32_t{BANK_CONFLICT} : cause;
        if (!is_device(address)) return EXTERNAL;
        const uint32_t own = address - PRIVATE_EVENT_UNIT;
        if (own < BLOCK_BYTES) return own >= PRIVATE_BARRIERS ? BARRIER : EVENT;
        return address - EVENT_UNIT < SHARED_EVENT_UNIT_BYTES ? EVENT : PERIPHERAL;
    }

  private:
    static constexpr uint32_t TEST_SET = TCDM_BASE | 1u << TEST_SET_BIT;
    static constexpr uint32_t SHARED_EVENT_UNIT_BYTES = 2 * BLOCK_BYTES;
};

}  // namespace harness
