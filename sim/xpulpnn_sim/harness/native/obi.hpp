// OBI subordinate with random grants and response latencies, answering in order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "memory.hpp"

namespace harness {

class Random {
  public:
    explicit Random(uint32_t seed) : state_(seed * 2654435761u | 1u) {}
    uint32_t next() {  // xorshift32
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return state_;
    }

  private:
    uint32_t state_;
};

class Obi {
  public:
    // A grant is withheld when a random number is below `grant_stall`; a response takes 1 to `latency` cycles.
    // `fault_data` answers reads outside the memory.
    Obi(Memory& memory, uint32_t seed, uint32_t grant_stall, uint32_t latency, uint32_t fault_data)
        : memory_(memory), random_(seed), grant_stall_(grant_stall), latency_(latency), fault_data_(fault_data) {}

    bool grant = false;   // driven in the coming cycle; never in the first
    bool rvalid = false;  // likewise
    uint32_t rdata = 0;
    bool err = false;  // with rvalid: the access failed, see Memory::add_errors()

    // Takes the granted request of the cycle that ends; false if nothing is known of its address.
    bool request(uint64_t cycle, uint32_t address, bool we, uint32_t be, uint32_t wdata) {
        const bool fails = memory_.fails(address);
        uint8_t* bytes = fails ? nullptr : memory_.locate(address);
        uint32_t word = fault_data_;
        if (bytes) {
            std::memcpy(&word, bytes, sizeof word);
            if (we) memory_.write(bytes, word, be, wdata);
        }
        const uint64_t latency = latency_ == 1 ? 1 : 1 + random_.next() % latency_;
        ready_at_ = std::max(ready_at_ + 1, cycle + latency);
        responses_[tail_++ % DEPTH] = {ready_at_, word, fails};
        return fails || bytes;
    }

    // Chooses what the bus drives in `cycle`.
    void advance(uint64_t cycle) {
        rvalid = head_ != tail_ && responses_[head_ % DEPTH].ready_at <= cycle;
        if (rvalid) {
            const Response& response = responses_[head_++ % DEPTH];
            rdata = response.word;
            err = response.err;
        }
        grant = tail_ - head_ < DEPTH && (grant_stall_ == 0 || random_.next() >= grant_stall_);
    }

  private:
    static constexpr uint32_t DEPTH = 16;
    struct Response {
        uint64_t ready_at;
        uint32_t word;
        bool err;
    };

    Memory& memory_;
    Random random_;
    uint32_t grant_stall_, latency_, fault_data_;
    uint64_t ready_at_ = 0;
    Response responses_[DEPTH];
    uint32_t head_ = 0, tail_ = 0;
};

}  // namespace harness
