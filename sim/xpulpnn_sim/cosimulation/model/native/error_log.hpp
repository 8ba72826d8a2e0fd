// Differences found in a block: their number, and the first of them in detail.
#pragma once
#include <cstddef>
#include <cstdint>

#include "schema.hpp"

namespace harness {

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

}  // namespace harness
