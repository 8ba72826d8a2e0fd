// Where the cycles of a hart go: for each instruction its retirements and the cycles without one, by cause.
#pragma once
#include <cstdint>
#include <vector>

#include "address_map.hpp"
#include "schema.hpp"

namespace harness {

class Account {
  public:
    // `rows` has STALLS counters for each half word of the text and for everything elsewhere, which comes last.
    void start(uint32_t base, uint32_t bytes, uint64_t* rows) {
        base_ = base;
        slots_ = bytes / SLOT_BYTES;
        rows_ = rows;
        previous_ = row(base - 1);
    }
    bool runs() const { return rows_ != nullptr; }

    void wait(uint32_t cause) {
        ++pending_[cause];
        late_ = true;
    }

    // `address` is that of the access if the instruction is one.
    void retire(uint32_t pc, uint32_t address) {
        uint64_t* here = row(pc);
        ++here[NONE];
        if (late_) {
            // what a transfer of control costs is told apart from what its target waits for
            for (uint32_t cause = 0; cause < WAIT_CAUSES; ++cause) {
                if (!pending_[cause]) continue;
                const bool for_port = BANKS && (cause == GRANT || cause == RESPONSE);
                const uint32_t column = for_port ? AddressMap::wait(cause, address) : cause;
                (CHARGED_BEFORE >> cause & 1 ? previous_ : here)[column] += pending_[cause];
                pending_[cause] = 0;
            }
            late_ = false;
        }
        previous_ = here;
    }

  private:
    static constexpr uint32_t SLOT_BYTES = 2;

    uint64_t* row(uint32_t pc) const {
        const uint32_t slot = (pc - base_) / SLOT_BYTES;
        return rows_ + uint64_t{STALLS} * (slot < slots_ ? slot : slots_);
    }

    uint32_t base_ = 0, slots_ = 0;
    uint64_t *rows_ = nullptr, *previous_ = nullptr;
    uint32_t pending_[WAIT_CAUSES] = {};
    bool late_ = false;
};

}  // namespace harness
