// OBI subordinate with random grants and response latencies, answering in order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "memory.hpp"
#include "schema.hpp"

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
    // A grant is withheld when a random number is below `grant_stall`; a response takes `least` cycles and up to
    // `spread` - 1 more; nothing of an answer stays on a bus with such random timing, while an ideal one holds its words.
    // `fault_data` answers reads outside the memory.
    Obi(Memory& memory, uint32_t seed, uint32_t grant_stall, uint32_t least, uint32_t spread, uint32_t fault_data)
        : memory_(memory),
          random_(seed),
          grant_stall_(grant_stall),
          least_(least),
          spread_(spread),
          fault_data_(fault_data),
          holds_(grant_stall == 0 && spread == 1) {}

    bool grant = false;   // driven in the coming cycle; never in the first
    bool rvalid = false;  // likewise
    uint32_t rdata = 0;
    uint32_t rdata_high = 0;  // of a port of 64 bits
    bool err = false;  // with rvalid: the access failed, see Memory::add_errors()

    // Whether a request that was not granted is still there in the cycle that ends, as it was; what a read would write
    // does not matter.
    bool kept(bool req, uint32_t address, bool we, uint32_t be, uint32_t wdata) {
        const Request now = {address, we, we ? be : 0, we ? wdata : 0};
        const bool same = !waits_ || (req && std::memcmp(&now, &waiting_, sizeof now) == 0);
        waits_ = req && !grant;
        waiting_ = now;
        return same;
    }

    // Accesses without an answer before the cycle that ends, one that gets it there included.
    uint32_t open() const { return rvalid + tail_ - head_; }

    // Takes the granted request of the cycle that ends; false if nothing is known of its address.
    bool request(uint64_t cycle, uint32_t address, bool we, uint32_t be, uint32_t wdata) {
        uint32_t word;
        const bool inside = perform(address, we, be, wdata, word);
        answer(cycle, word, 0, memory_.fails(address));
        return inside;
    }

    // Likewise on a port of 64 bits, where the words count of which a byte is enabled; what fails is answered so.
    bool request(uint64_t cycle, const DmaOut& out) {
        uint32_t low = fault_data_, high = fault_data_;
        bool inside = true;
        const uint32_t low_be = out.be & WORD_LANES, high_be = out.be >> WORD_BYTES;
        if (low_be) inside &= perform(out.addr, out.we, low_be, out.wdata, low);
        if (high_be) inside &= perform(out.addr + WORD_BYTES, out.we, high_be, out.wdata_high, high);
        answer(cycle, low, high, !inside);
        return inside;
    }

    // Likewise on a port that reads 64 bits; what fails is answered so.
    void request(uint64_t cycle, const RefillOut& out) {
        uint32_t low, high;
        perform(out.addr, false, 0, 0, low);
        perform(out.addr + WORD_BYTES, false, 0, 0, high);
        answer(cycle, low, high, memory_.fails(out.addr) || memory_.fails(out.addr + WORD_BYTES));
    }

    // Chooses what the bus drives in `cycle`.
    void advance(uint64_t cycle) {
        const bool answered = rvalid;
        rvalid = head_ != tail_ && responses_[head_ % DEPTH].ready_at <= cycle;
        if (rvalid) {
            const Response& response = responses_[head_++ % DEPTH];
            rdata = response.word;
            rdata_high = response.high;
            err = response.err;
        } else if (answered && !holds_) {
            rdata = ~rdata;
            rdata_high = ~rdata_high;
            err = !err;
        }
        grant = tail_ - head_ < DEPTH && (grant_stall_ == 0 || random_.next() >= grant_stall_);
    }

  private:
    static constexpr uint32_t DEPTH = 16;
    static constexpr uint32_t WORD_BYTES = 4, WORD_LANES = 0xF;
    struct Request {
        uint32_t address, we, be, wdata;
    };
    struct Response {
        uint64_t ready_at;
        uint32_t word, high;
        bool err;
    };

    bool perform(uint32_t address, bool we, uint32_t be, uint32_t wdata, uint32_t& word) {
        word = fault_data_;
        if (memory_.fails(address)) return true;
        uint8_t* bytes = memory_.locate(address);
        if (!bytes) return false;
        std::memcpy(&word, bytes, sizeof word);
        if (we) memory_.write(bytes, word, be, wdata);
        return true;
    }

    void answer(uint64_t cycle, uint32_t word, uint32_t high, bool err) {
        const uint64_t latency = least_ + (spread_ == 1 ? 0 : random_.next() % spread_);
        ready_at_ = std::max(ready_at_ + 1, cycle + latency);
        responses_[tail_++ % DEPTH] = {ready_at_, word, high, err};
    }

    Memory& memory_;
    Random random_;
    uint32_t grant_stall_, least_, spread_, fault_data_;
    bool holds_;
    uint64_t ready_at_ = 0;
    Response responses_[DEPTH];
    uint32_t head_ = 0, tail_ = 0;
    bool waits_ = false;
    Request waiting_ = {};
};

}  // namespace harness
