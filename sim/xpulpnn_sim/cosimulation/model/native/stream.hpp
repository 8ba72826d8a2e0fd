// Feeds executed instructions into a back end, in order, and judges its redirects.
#pragma once
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Stream {
  public:
    explicit Stream(Memory& memory) : memory_(memory) {}

    std::vector<StreamInsn> program;
    std::vector<Poke> pokes;  // ascending

    // Appends a block: `count` positions in the program, and `lookahead` (0 or 1) more of the next block.
    void feed(const uint32_t* indices, uint64_t count, uint64_t lookahead) {
        block_ = indices;
        count_ = count;
        known_ = count + lookahead;
        offered_ -= accepted_in_block_;
        accepted_in_block_ = 0;
    }

    uint64_t accepted() const { return accepted_; }
    uint64_t first_offered() const { return first_offered_; }
    bool wanting() const { return accepted_in_block_ < count_; }

    // The clock edge; false at a redirect that the sequence does not have, described by `wrong`.
    bool edge(uint64_t cycle, const StreamOut& seen, StreamIn& to) {
        const bool taken = valid_ && seen.ready;
        good_ = true;
        if (seen.jump && !(taken && program[current_].kind == JUMP_INSN)) {
            fail(accepted_, program[current_].pc + INSN_BYTES, seen.jump_target);
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

    struct {
        uint64_t position;
        uint32_t expected, got;  // next pc
    } wrong{};

  private:
    void fail(uint64_t position, uint32_t expected, uint32_t got) {
        if (good_) wrong = {position, expected, got};
        good_ = false;
    }

    void accept(const StreamOut& seen) {
        const StreamInsn& insn = program[current_];
        const bool has_next = accepted_in_block_ + 1 < known_;
        const uint32_t after = insn.pc + INSN_BYTES;
        const uint32_t next_pc = has_next ? program[block_[accepted_in_block_ + 1]].pc : after;
        if (insn.kind == JUMP_INSN) {
            const uint32_t got = seen.jump ? seen.jump_target : after;
            if (has_next && got != next_pc) fail(accepted_, next_pc, got);
            bubbles_ = 1;
        } else if (insn.kind == BRANCH_INSN) {
            waiting_branch_ = next_pc != after;
            free_branch_ = !has_next;
            branch_pc_ = next_pc;
        }
        while (__builtin_expect(poke_ < pokes.size() && pokes[poke_].position <= accepted_, 0)) {
            memory_.store(pokes[poke_].address, pokes[poke_].word, sizeof(uint32_t));
            ++poke_;
        }
        ++accepted_;
        ++accepted_in_block_;
    }

    void branch_taken(uint32_t target) {
        if (!free_branch_ && (!waiting_branch_ || target != branch_pc_)) fail(accepted_ - 1, branch_pc_, target);
        free_branch_ = waiting_branch_ = false;
        bubbles_ = 1;
    }

    // Drives the next instruction of the block unless a redirect is still costing fetch cycles.
    void offer(uint64_t cycle) {
        valid_ = false;
        if (waiting_branch_) return;
        if (bubbles_ > 0) {
            --bubbles_;
            return;
        }
        if (offered_ >= known_) return;
        if (!first_offered_) first_offered_ = cycle;
        current_ = block_[offered_++];
        valid_ = true;
    }

    Memory& memory_;
    const uint32_t* block_ = nullptr;
    uint64_t count_ = 0, known_ = 0, offered_ = 0, accepted_in_block_ = 0, accepted_ = 0, first_offered_ = 0;
    uint32_t current_ = 0, branch_pc_ = 0, bubbles_ = 0;
    bool valid_ = false, waiting_branch_ = false, free_branch_ = false, good_ = true;
    size_t poke_ = 0;
};

}  // namespace harness
