// Parts of a check: instructions by word, the log of differences, operands and results by group of instructions,
// memory as the bus orders it, the search of thresholds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

using Text = std::unordered_map<uint32_t, CheckInsn>;  // instructions by their words in memory

// Differences found in a block: their number, and the first of them in detail.
class ErrorLog {
  public:
    void start(CheckError* errors) {
        first_ = errors;
        total = 0;
    }
    __attribute__((noinline)) void add(uint32_t hart, uint32_t position, size_t field, uint32_t expected, uint32_t got) {
        if (total < KEPT_ERRORS) first_[total] = {hart, position, static_cast<uint32_t>(field), expected, got};
        ++total;
    }
    uint32_t total = 0;

  private:
    CheckError* first_ = nullptr;
};

// Operands and results of a block by group of instructions, for the reference models.
class ValueTable {
  public:
    // Distributes the values of a block, the instructions `chosen`, to `groups` groups, one array per ValueField; group g
    // starts at `starts[g]`.
    // The parameters of a requantisation and the second activation of a pair are those that the records have loaded,
    // since none of their fields shows them.
    void fill(const Retirement* records, const std::vector<const CheckInsn*>& chosen, uint32_t groups, uint32_t* starts,
              uint32_t* values) {
        const uint32_t count = static_cast<uint32_t>(chosen.size());
        std::vector<uint32_t> next(groups + 1);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t group = chosen[i]->group;
            if (group != NO_GROUP && !records[i].trap) ++next[group + 1];
        }
        for (uint32_t group = 0; group < groups; ++group) next[group + 1] += next[group];
        for (uint32_t group = 0; group <= groups; ++group) starts[group] = next[group];
        for (uint32_t i = 0; i < count; ++i) {
            const Retirement& r = records[i];
            const CheckInsn& insn = *chosen[i];
            const uint32_t second = loaded_[insn.act | 1];
            if (insn.properties & WRITES_NN && !r.trap) loaded_[insn.reloaded] = r.mem_rdata;
            if (__builtin_expect(insn.action >= CSR_WRITE && insn.action <= CSR_CLEAR && !r.trap, 0)) change(insn, r);
            if (insn.group == NO_GROUP || r.trap) continue;
            const bool requantises = insn.properties & READS_PARAMETERS;
            uint32_t* to = values + next[insn.group]++;
            to[count * VALUE_WORD] = insn.word;
            to[count * VALUE_PC] = r.pc_rdata;
            to[count * VALUE_POSITION] = i;
            to[count * VALUE_RS1] = r.rs1_rdata;
            to[count * VALUE_RS2] = r.rs2_rdata;
            to[count * VALUE_RD_OLD] = r.rd_rdata;
            to[count * VALUE_ACT] = requantises ? loaded_[FIRST_PARAMETER] : r.nn_act_rdata;
            to[count * VALUE_WGT] = requantises ? loaded_[FIRST_PARAMETER + 1] : r.nn_wgt_rdata;
            to[count * VALUE_ACT2] = second;
            to[count * VALUE_LOADED] = r.mem_rdata;
            to[count * VALUE_RD] = r.rd_wdata;
            to[count * VALUE_RD2] = r.rd2_wdata;
            to[count * VALUE_BASE] = r.base_wdata;
            to[count * VALUE_ADDRESS] = r.mem_addr;
            to[count * VALUE_STORE] = r.mem_wdata;
        }
    }

  private:
    // The write of a CSR that is a word of the NN-RF.
    void change(const CheckInsn& insn, const Retirement& r) {
        const uint32_t entry = insn.number - CSR_NN0, operand = insn.is_constant ? insn.constant : r.rs1_rdata;
        if (entry >= NNRF_WORDS) return;
        uint32_t& word = loaded_[entry];
        word = insn.action == CSR_WRITE ? operand : insn.action == CSR_SET ? word | operand : word & ~operand;
    }

    uint32_t loaded_[NNRF_WORDS] = {};  // entries of the NN-RF by the records alone
};

struct Access {
    Grant grant;
    uint32_t word;  // of a read: what the memory held
};

// Memory as the bus orders it: granted accesses change the shadow memory one after the other, whoever made them, and
// each hart finds its own in the order of its instructions.
class Order {
  public:
    Order(Memory& shadow, uint32_t harts) : shadow_(shadow), waiting_(harts) {}

    void append(const Grant* grants, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            // accesses of DMA, host and test&set belong to no instruction
            if (grants[i].hart < waiting_.size()) waiting_[grants[i].hart].push_back(first_ + log_.size());
            log_.push_back({grants[i], 0});
        }
    }

    // The oldest access of a hart that no instruction has claimed, granted before `cycle`; nullptr if there is none.
    // All accesses up to it take effect.
    const Access* claim(uint32_t hart, uint64_t cycle) {
        std::deque<uint64_t>& own = waiting_[hart];
        if (own.empty() || log_[own.front() - first_].grant.cycle >= cycle) return nullptr;
        const uint64_t number = own.front();
        own.pop_front();
        apply(number + 1);
        return &log_[number - first_];
    }

    // The next access to the word of a claimed one; nullptr if there is none yet.
    const Access* following(const Access* access) const {
        const Access* end = log_.data() + log_.size();
        for (const Access* later = access + 1; later < end; ++later) {
            if (later->grant.address == access->grant.address) return later;
        }
        return nullptr;
    }

    // Forgets what has taken effect and been claimed.
    void trim() {
        uint64_t oldest = applied_;
        for (const auto& own : waiting_) {
            if (!own.empty() && own.front() < oldest) oldest = own.front();
        }
        log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(oldest - first_));
        first_ = oldest;
    }

    void finish() { apply(first_ + log_.size()); }

  private:
    void apply(uint64_t end) {
        for (; applied_ < end; ++applied_) {
            Access& access = log_[applied_ - first_];
            uint8_t* bytes = shadow_.locate(access.grant.address);
            if (!bytes || shadow_.fails(access.grant.address)) continue;
            std::memcpy(&access.word, bytes, sizeof access.word);
            if (access.grant.we) Memory::write(bytes, access.word, access.grant.be, access.grant.wdata);
        }
    }

    Memory& shadow_;
    std::vector<std::deque<uint64_t>> waiting_;  // numbers of the accesses of each hart
    std::vector<Access> log_;
    uint64_t first_ = 0, applied_ = 0;  // number of log_[0], of the first access without effect yet
};

// The thresholds that pv.qnt reads, one after the other, and its result (guide, "Threshold quantisation").
class ThresholdSearch {
  public:
    ThresholdSearch(uint32_t pixels, uint32_t middle, uint32_t width) : width_(width) {
        const uint32_t distance = 2u << width;  // from the thresholds of one pixel to those of the next
        places_[0] = middle & ~1u;
        places_[1] = (middle & 0xFFFF0000u) | ((places_[0] + distance) & 0xFFFFu);
        pixels_[0] = static_cast<int16_t>(pixels);
        pixels_[1] = static_cast<int16_t>(pixels >> 16);
    }

    bool done() const { return bits_ == width_; }

    uint32_t address() const { return places_[pixel_]; }

    void answer(uint32_t threshold) {
        const bool above = pixels_[pixel_] > static_cast<int16_t>(threshold);
        const uint32_t step = (1u << (width_ - 1)) >> bits_;
        uint32_t& place = places_[pixel_];
        place = (place & ~BLOCK) | ((above ? place + step : place - step) & BLOCK);
        codes_[pixel_] += above ? step : 0;
        bits_ += pixel_;
        pixel_ ^= 1;
    }

    // Counts of thresholds below the pixels, less half of the codes.
    uint32_t result() const {
        const uint32_t half = 1u << (width_ - 1), mask = 2 * half - 1;
        return ((codes_[1] - half) & mask) << width_ | ((codes_[0] - half) & mask);
    }

  private:
    static constexpr uint32_t BLOCK = 63;
    const uint32_t width_;
    uint32_t places_[2], codes_[2] = {0, 0}, bits_ = 0, pixel_ = 0;
    int32_t pixels_[2];
};

}  // namespace harness
