// Memory macros on the ports of a cluster's banks: word r of bank b is word r * BANKS + b of the TCDM.
#pragma once
#include <cstdint>
#include <cstring>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Banks {
  public:
    // `hash`: the bank of a word is the exclusive-or of all groups of bits of its number, instead of the lowest one.
    explicit Banks(bool hash) : hash_(hash) {}

    // The TCDM, in place.
    void attach(uint8_t* bytes) { bytes_ = bytes; }

    // Address of an access.
    uint32_t address(uint32_t bank, const BankOut& seen) const {
        uint32_t column = bank;
        if (hash_ && BANKS > 1) {
            for (uint32_t rest = seen.addr; rest; rest /= BANKS_OR_2) column ^= rest % BANKS_OR_2;
        }
        return TCDM_BASE + (seen.addr * BANKS + column) * WORD;
    }

    // Performs an access; `read` takes the word if there is one to take.
    void access(uint32_t address, const BankOut& seen, uint32_t& read) {
        uint8_t* bytes = bytes_ + (address - TCDM_BASE);
        uint32_t word;
        std::memcpy(&word, bytes, sizeof word);
        if (seen.we) {
            Memory::write(bytes, word, seen.be, seen.wdata);
        } else {
            read = word;
        }
    }

  private:
    static constexpr uint32_t WORD = 4;
    static constexpr uint32_t BANKS_OR_2 = BANKS > 1 ? BANKS : 2;  // of one bank nothing is divided
    uint8_t* bytes_ = nullptr;
    bool hash_;
};

}  // namespace harness
