// Follows the retirements of all harts in the order of their cycles. For each block and hart the steps are find,
// distribute and transfers (hart.hpp); check() then follows the block of all.
#pragma once
#include <cstdint>
#include <vector>

#include "followed.hpp"
#include "hart.hpp"
#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Checker {
  public:
    Checker(const CheckSettings& settings, const Window* windows, uint64_t count)
        : settings_(settings), shadow_(settings.sparse, windows, count), order_(shadow_, settings.harts) {
        harts_.reserve(settings.harts);
        for (uint32_t i = 0; i < settings.harts; ++i) harts_.emplace_back(i, settings_, text, shadow_, order_, errors_);
    }

    Text text;

    Hart& hart(uint32_t number) { return harts_[number]; }

    // `grants` are the bus accesses of the block. Returns the number of differences; the first go to `errors`.
    uint32_t check(const Grant* grants, uint32_t count, CheckError* errors) {
        errors_.start(errors);
        order_.append(grants, count);
        while (Hart* next = earliest()) next->step();
        order_.trim();
        return errors_.total;
    }

    // The run is over: accesses that no instruction has claimed take effect.
    void finish() { order_.finish(); }

  private:
    Hart* earliest() {
        Hart* found = nullptr;
        for (Hart& hart : harts_) {
            if (!hart.done() && (!found || hart.cycle() < found->cycle())) found = &hart;
        }
        return found;
    }

    CheckSettings settings_;
    Memory shadow_;
    Order order_;
    ErrorLog errors_;
    std::vector<Hart> harts_;
};

}  // namespace harness
