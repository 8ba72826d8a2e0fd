// What the harts of a check share: instructions by word, memory as the bus orders it, the search of thresholds.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "memory.hpp"
#include "schema.hpp"

namespace harness {

using Text = std::unordered_map<uint32_t, CheckInsn>;  // instructions by their words in memory

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
            // what DMA, host and test&set do takes effect in its turn, and is no instruction's
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
    // `width`: bits of a code.
    ThresholdSearch(uint32_t pixels, uint32_t middle, uint32_t width) : width_(width) {
        const uint32_t distance = 2u << width;  // from the thresholds of one pixel to those of the next
        places_[0] = middle & ~1u;
        places_[1] = (middle & 0xFFFF0000u) | ((places_[0] + distance) & 0xFFFFu);
        pixels_[0] = static_cast<int16_t>(pixels);
        pixels_[1] = static_cast<int16_t>(pixels >> 16);
    }

    bool done() const { return bits_ == width_; }

    // Of the next threshold.
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
