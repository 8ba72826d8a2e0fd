// A hart as it retires: what ends its run, and where its cycles go.
#pragma once
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

// What ends the run of a hart, seen at its retirements.
class Ends {
  public:
    // Looks at a retirement; `quiet`: no interrupt can come any more. Returns events.
    uint32_t retire(Memory& memory, const RetireOut& seen, bool quiet, bool fetches) {
        uint32_t events = 0;
        idle_ = 0;
        const bool straight = seen.pc_wdata == seen.pc_rdata + ((seen.insn & 3) == 3 ? 4 : 2);
        if (__builtin_expect(seen.trap, 0)) {
            // a handler whose first instruction traps returns to itself forever; one that traps in the code with which it
            // begins, as it stores registers to a stack that has overflowed, traps again and again
            again_ = steps_ ? again_ + 1 : 0;
            if (again_ == (seen.pc_rdata == seen.pc_wdata ? 1 : MOST_TRAPS)) events |= TRAP_LOOP;
            steps_ = 1;
        } else if (__builtin_expect(seen.pc_wdata == seen.pc_rdata && jumps(seen.insn) && quiet, 0)) {
            events |= ENDLESS_LOOP;
        } else if (steps_) {
            const bool goes_on = straight || (steps_ == 1 && jumps(seen.insn));
            steps_ = goes_on && steps_ < MOST_STEPS ? steps_ + 1 : 0;
        }
        // both halves of what is executed must be inside; what is only fetched ahead need not
        const uint32_t upper = seen.pc_rdata + ((seen.insn & 3) == 3 ? 2 : 0);
        const bool nearby = seen.pc_rdata - window_.base < window_.size && upper - window_.base < window_.size;
        if (__builtin_expect(fetches && !nearby, 0)) {
            for (uint32_t half : {seen.pc_rdata, upper}) {
                if (!memory.locate(half) && !memory.fails(half)) events |= BAD_FETCH;
            }
            if (const Window* window = memory.window(seen.pc_rdata)) window_ = *window;
        }
        return events;
    }

    // Whether the last trap is one of a handler, in the code with which it begins.
    bool again() const { return again_; }

    // Without a patience nothing is waited for.
    uint32_t wait(bool asleep, bool quiet, uint32_t patience) {
        if (!patience) return idle_ = 0;
        if (asleep) return quiet ? ENDLESS_LOOP : 0;
        return ++idle_ > patience ? STUCK : 0;
    }

  private:
    // Jumps, and branches with the offset 0; one to itself changes nothing but its link.
    static bool jumps(uint32_t insn) {
        constexpr uint32_t JAL = 0x6F, C_J = 0xA001, C_JAL = 0x2001;
        constexpr uint32_t BRANCH = 0x63, BRANCH_OFFSET = 0xFE000F80, C_BRANCH = 0xC001, C_BRANCH_OFFSET = 0x1C7C;
        return (insn & 0x7F) == JAL || (insn & 0xE003) == C_J || (insn & 0xE003) == C_JAL ||
               (insn & (0x7F | BRANCH_OFFSET)) == BRANCH || (insn & (0xC003 | C_BRANCH_OFFSET)) == C_BRANCH;
    }

    uint32_t again_ = 0, steps_ = 0, idle_ = 0;  // steps_: instructions since a trap, it included, while straight
    Window window_ = {};  // the last one that an instruction was in
};

// Where the cycles of a hart go: for each instruction its retirements and the cycles without one, by cause.
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
            // the cost of a transfer of control is charged to it, not to its target
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
