// Instructions by their words, as the checker sees them.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schema.hpp"

namespace harness {

class Text {
  public:
    static constexpr uint32_t UNKNOWN = ~0u;

    void add(const CheckInsn* insns, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            by_word_[insns[i].raw] = static_cast<uint32_t>(insns_.size());
            insns_.push_back(insns[i]);
        }
    }

    const CheckInsn& operator[](uint32_t number) const { return insns_[number]; }

    // Number of the instruction with the word `raw`.
    uint32_t find(uint32_t raw) const {
        const auto found = by_word_.find(raw);
        return found == by_word_.end() ? UNKNOWN : found->second;
    }

  private:
    std::vector<CheckInsn> insns_;
    std::unordered_map<uint32_t, uint32_t> by_word_;
};

}  // namespace harness
