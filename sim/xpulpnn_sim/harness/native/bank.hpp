// Memory macros on the ports of a cluster's banks: word r of bank b is word r * BANKS + b of the TCDM.
#pragma once
#include <cstdint>
#include <cstring>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Banks {
  public:
    // `hash`: the bank of a word is its number exclusive-or the row, instead of its number alone.
    explicit Banks(bool hash) : hash_(hash) {}

    // The TCDM, in place.
    void attach(uint8_t* bytes) { bytes_ = bytes; }

    // Address of an access.
    uint32_t address(uint32_t bank, const BankOut& seen) const {
        const uint32_t column = hash_ ? (bank ^ seen.addr) % MODULUS : bank;
        return TCDM_BASE + (seen.addr * MODULUS + column) * WORD;
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
    static constexpr uint32_t WORD = 4, MODULUS = BANKS ? BANKS : 1;
    uint8_t* bytes_ = nullptr;
    bool hash_;
};

}  // namespace harness
