// Feeds executed instructions into a back end, in order, and judges its redirects.
#pragma once
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Stream {
  public:
    Stream(Memory& memory, Status& status) : memory_(memory), status_(status) {}

    std::vector<StreamInsn> program;
    std::vector<Poke> pokes;  // ascending

    // Positions in the program of what is to be executed, which stay the caller's.
    void feed(const uint32_t* sequence, uint64_t count) {
        sequence_ = sequence;
        count_ = count;
    }

    bool wanting() const { return status_.accepted < count_; }

    // The clock edge; false at a redirect that the sequence does not have, which the status describes.
    bool edge(uint64_t cycle, const StreamOut& seen, StreamIn& to) {
        const bool taken = valid_ && seen.ready;
        good_ = true;
        if (seen.jump && !(taken && program[current_].insn_class == JUMP_INSN)) {
            fail(status_.accepted, program[current_].pc + INSN_BYTES, seen.jump_target);
        }
        if (seen.branch) branch_taken(seen.branch_target);
        if (taken) accept(seen);
        if (!valid_ || taken) offer(cycle);
        to.valid = valid_;
        if (valid_) {
            to.word = program[current_].word;
            to.pc = program[current_].pc;
        }
        return good_;
    }

  private:
    void fail(uint64_t position, uint32_t expected, uint32_t got) {
        if (good_) {
            status_.position = position;
            status_.expected = expected;
            status_.got = got;
        }
        good_ = false;
    }

    void accept(const StreamOut& seen) {
        const StreamInsn& insn = program[current_];
        const bool has_next = status_.accepted + 1 < count_;
        const uint32_t after = insn.pc + INSN_BYTES;
        const uint32_t next_pc = has_next ? program[sequence_[status_.accepted + 1]].pc : after;
        if (insn.insn_class == JUMP_INSN) {
            const uint32_t got = seen.jump ? seen.jump_target : after;
            if (has_next && got != next_pc) fail(status_.accepted, next_pc, got);
            bubbles_ = 1;
        } else if (insn.insn_class == BRANCH_INSN) {
            waiting_branch_ = next_pc != after;
            free_branch_ = !has_next;
            branch_pc_ = next_pc;
        }
        while (__builtin_expect(poke_ < pokes.size() && pokes[poke_].position <= status_.accepted, 0)) {
            memory_.store(pokes[poke_].address, pokes[poke_].word, sizeof(uint32_t));
            ++poke_;
        }
        ++status_.accepted;
    }

    void branch_taken(uint32_t target) {
        if (!free_branch_ && (!waiting_branch_ || target != branch_pc_)) fail(status_.accepted - 1, branch_pc_, target);
        free_branch_ = waiting_branch_ = false;
        bubbles_ = 1;
    }

    // Drives the next instruction unless a redirect is still costing fetch cycles.
    void offer(uint64_t cycle) {
        valid_ = false;
        if (waiting_branch_) return;
        if (bubbles_ > 0) {
            --bubbles_;
            return;
        }
        if (offered_ >= count_) return;
        if (!status_.first_offered) status_.first_offered = cycle;
        current_ = sequence_[offered_++];
        valid_ = true;
    }

    Memory& memory_;
    Status& status_;
    const uint32_t* sequence_ = nullptr;
    uint64_t count_ = 0, offered_ = 0;
    uint32_t current_ = 0, branch_pc_ = 0, bubbles_ = 0;
    bool valid_ = false, waiting_branch_ = false, free_branch_ = false, good_ = true;
    size_t poke_ = 0;
};

}  // namespace harness
