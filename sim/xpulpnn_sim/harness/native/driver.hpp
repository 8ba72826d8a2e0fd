// Feeds the executed instruction sequence into the back end, one decision per clock cycle.
#pragma once
#include <cstdint>
#include <vector>

#include "bus.hpp"
#include "checker.hpp"
#include "memory.hpp"
#include "records.hpp"

namespace cosim {

// Outputs of the back end in the cycle that ends.
struct Outputs {
    bool ready, jump, branch, request, we, trap, busy;
    uint32_t be, cause, jump_target, branch_target, address, wdata;
};

class Driver {
  public:
    explicit Driver(const Settings& settings)
        : settings(settings),
          memory(settings.sparse),
          shadow(settings.sparse),
          bus(settings, memory),
          checker(shadow, log) {
        bus.advance(0);
    }

    Settings settings;
    ErrorLog log;
    Memory memory, shadow;
    Bus bus;
    Checker checker;
    Stats stats{};
    std::vector<StaticInsn> program;
    std::vector<uint64_t> cycles_at;  // per static instruction: cycles in which it was the last one accepted
    std::vector<Poke> pokes;

    // Inputs of the back end in the coming cycle.
    bool valid = false;
    uint32_t word = 0, pc = 0, length = 0;

    // Appends a block: `count` instructions, and `lookahead` (0 or 1) more of the next block.
    void feed(const uint32_t* indices, uint64_t count, uint64_t lookahead) {
        block_ = indices;
        count_ = count;
        known_ = count + lookahead;
        accepted_in_block_ = 0;
    }
    bool wanting() const { return accepted_in_block_ < count_ && !log.fatal; }
    bool draining() const { return !log.fatal && (busy_ || bus.pending() || quiet_ < QUIET_CYCLES); }
    void end_block() { offered_ -= count_; }
    // Takes the quiet cycles after the last instruction out of the account.
    void end_stream() {
        stats.cycles -= quiet_;
        if (started_) cycles_at[head_] -= quiet_;
    }
    // Room that the records of the current block need at most.
    static constexpr uint64_t IN_FLIGHT = 16;

    // Registers `program` must have been filled; called for every instruction leaving the pipeline.
    void retire(const Retirement& retirement) {
        if (stats.retired == stats.accepted) {
            log.add(Kind::EXTRA_RETIREMENT, stats.retired, stats.cycles, 0, retirement.insn);
            return;
        }
        apply_pokes(shadow, shadow_poke_, stats.retired);
        checker.retire(program[in_flight_[stats.retired % IN_FLIGHT]], retirement, stats.retired, stats.cycles);
        ++stats.retired;
        idle_ = 0;
    }

    // The clock edge: sees the cycle that ends, chooses the inputs of the next one.
    void edge(const Outputs& out) {
        ++stats.cycles;
        busy_ = out.busy;
        quiet_ = out.busy || valid ? 0 : quiet_ + 1;
        const bool requested = out.request && bus.grant;
        if (requested && !bus.request(stats.cycles, out.address, out.we, out.be, out.wdata)) {
            if (stats.faults++ == 0) fail(Kind::FAULT, 0, out.address);
        }
        const bool accepted = valid && out.ready;
        if (out.trap) fail(Kind::TRAP, 0, out.cause);
        if (out.jump && !(accepted && program[current_].properties & JUMPS)) {
            fail(Kind::JUMP_UNEXPECTED, pc, out.jump_target);
        }
        if (out.branch) branch_taken(out.branch_target);
        if (accepted) {
            accept(out);
        } else {
            if (started_ && accepted_in_block_ < known_) count_stall(out, requested);
            if (++idle_ > settings.watchdog) fail(Kind::STUCK, waiting_branch_, 0);
        }
        if (started_) ++cycles_at[head_];
        if (!valid || accepted) offer();
        bus.advance(stats.cycles + 1);
    }

  private:
    static constexpr uint32_t QUIET_CYCLES = 4;  // pipeline depth: after so many quiet cycles everything has retired

    void fail(Kind kind, uint32_t expected, uint32_t got) {
        log.add(kind, stats.accepted, stats.cycles, expected, got);
    }

    void apply_pokes(Memory& target, size_t& cursor, uint64_t position) {
        while (__builtin_expect(cursor < pokes.size() && pokes[cursor].position <= position, 0)) {
            target.store(pokes[cursor].address, pokes[cursor].word, sizeof(uint32_t));
            ++cursor;
        }
    }

    void accept(const Outputs& out) {
        const StaticInsn& insn = program[current_];
        const bool has_next = accepted_in_block_ + 1 < known_;
        const uint32_t next_pc = has_next ? program[block_[accepted_in_block_ + 1]].pc : 0;
        const bool departs = has_next && next_pc != insn.pc + insn.length && !(insn.properties & LOOP_END);
        if (insn.properties & JUMPS) {
            if (!out.jump) fail(Kind::JUMP_MISSING, next_pc, 0);
            else if (has_next && out.jump_target != next_pc) fail(Kind::JUMP_TARGET, next_pc, out.jump_target);
            bubbles_ = 1;
            bubble_cause_ = JUMP;
        } else if (insn.properties & BRANCHES) {
            waiting_branch_ = departs;
            free_branch_ = !has_next;
            branch_pc_ = next_pc;
            if (departs) bubble_cause_ = BRANCH;
        } else if (departs) {
            fail(Kind::DISCONTINUITY, insn.pc + insn.length, next_pc);
        }
        apply_pokes(memory, memory_poke_, stats.accepted);
        in_flight_[stats.accepted % IN_FLIGHT] = current_;
        head_ = current_;
        head_misaligned_ = false;
        ++stats.accepted;
        ++accepted_in_block_;
        idle_ = 0;
    }

    void branch_taken(uint32_t target) {
        if (free_branch_) {
            free_branch_ = false;
        } else if (!waiting_branch_) {
            log.add(Kind::BRANCH_UNEXPECTED, stats.accepted - 1, stats.cycles, pc, target);
        } else if (target != branch_pc_) {
            log.add(Kind::BRANCH_TARGET, stats.accepted - 1, stats.cycles, branch_pc_, target);
        }
        waiting_branch_ = false;
        bubbles_ = 1;
    }

    // Drives the next instruction of the block unless a redirect is still costing fetch cycles.
    void offer() {
        valid = false;
        if (waiting_branch_) return;
        if (bubbles_ > 0) {
            --bubbles_;
            return;
        }
        if (offered_ >= known_) return;
        current_ = block_[offered_++];
        const StaticInsn& insn = program[current_];
        word = insn.word;
        pc = insn.pc;
        length = insn.length;
        valid = true;
        if (!started_) {
            started_ = true;
            head_ = current_;
            stats.cycles = 0;
        }
    }

    void count_stall(const Outputs& out, bool requested) {
        const StaticInsn& head = program[head_];
        const bool accesses = head.properties & (LOADS | STORES);
        if (requested && accesses && __builtin_popcount(out.be) < head.access) head_misaligned_ = true;
        Stall cause = OTHER;
        if (!valid) cause = bubble_cause_;
        else if (out.request && !bus.grant) cause = GRANT;
        else if (head_misaligned_ && requested) cause = MISALIGNED;
        else if (bus.pending() && !requested) cause = RESPONSE;
        else if (head.properties & LOADS) cause = LOAD_USE;
        else if (head.properties & MULTICYCLE) cause = MULTICYCLE_UNIT;
        ++stats.stalls[cause];
    }

    const uint32_t* block_ = nullptr;
    uint64_t count_ = 0, known_ = 0, offered_ = 0, accepted_in_block_ = 0;
    uint32_t current_ = 0, head_ = 0;
    uint32_t in_flight_[IN_FLIGHT] = {};
    bool started_ = false, busy_ = false, head_misaligned_ = false;
    bool waiting_branch_ = false, free_branch_ = false;
    uint32_t branch_pc_ = 0, bubbles_ = 0, idle_ = 0, quiet_ = 0;
    Stall bubble_cause_ = JUMP;
    size_t memory_poke_ = 0, shadow_poke_ = 0;
};

}  // namespace cosim
