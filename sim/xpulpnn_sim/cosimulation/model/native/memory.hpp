// Byte-addressed little-endian memory: windows on buffers of the caller, plus optional pages of its own.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace harness {

class Memory {
  public:
    explicit Memory(bool sparse) : sparse_(sparse) {}

    // `base` and `size` are multiples of 4; `bytes` stays the caller's.
    void add_window(uint32_t base, uint32_t size, uint8_t* bytes) { windows_.push_back({base, size, bytes}); }

    // Words that the bus answers with an error; `base` and `size` are multiples of 4.
    void add_errors(uint32_t base, uint32_t size) { errors_.push_back({base, size, nullptr}); }

    bool fails(uint32_t address) const {
        for (const Window& window : errors_) {
            if (address - window.base < window.size) return true;
        }
        return false;
    }

    // Bytes of the aligned word holding `address`, or nullptr where there is no memory.
    uint8_t* locate(uint32_t address) {
        address &= ~3u;
        for (Window& window : windows_) {
            const uint32_t offset = address - window.base;
            if (offset < window.size) return window.bytes + offset;
        }
        if (!sparse_) return nullptr;
        std::unique_ptr<Page>& page = pages_[address >> PAGE_BITS];
        if (!page) page = std::make_unique<Page>();
        return page->data() + (address & (PAGE_BYTES - 1));
    }

    // Replaces the bytes enabled in `be` of the aligned word at `bytes`, which holds `word`.
    static void write(uint8_t* bytes, uint32_t word, uint32_t be, uint32_t data) {
        const uint32_t mask = (be & 1) * 0xFFu | (be >> 1 & 1) * 0xFF00u | (be >> 2 & 1) * 0xFF0000u |
                              (be >> 3 & 1) * 0xFF000000u;
        const uint32_t updated = (word & ~mask) | (data & mask);
        std::memcpy(bytes, &updated, sizeof updated);
    }

    // Word at any alignment, wrapping at the end of the address space; bytes outside the memory read as 0.
    uint32_t load(uint32_t address) {
        const uint32_t low = aligned(address);
        const uint32_t shift = 8 * (address & 3);
        if (shift == 0) return low;
        return low >> shift | aligned(address + 4) << (32 - shift);
    }

    void store(uint32_t address, uint32_t data, uint32_t bytes) {
        for (uint32_t i = 0; i < bytes; ++i, data >>= 8) {
            if (uint8_t* word = locate(address + i)) word[(address + i) & 3] = static_cast<uint8_t>(data);
        }
    }

  private:
    static constexpr uint32_t PAGE_BITS = 12;
    static constexpr uint32_t PAGE_BYTES = 1u << PAGE_BITS;
    using Page = std::array<uint8_t, PAGE_BYTES>;
    struct Window {
        uint32_t base, size;
        uint8_t* bytes;
    };

    uint32_t aligned(uint32_t address) {
        uint32_t word = 0;
        if (const uint8_t* bytes = locate(address)) std::memcpy(&word, bytes, sizeof word);
        return word;
    }

    bool sparse_;
    std::vector<Window> windows_;
    std::vector<Window> errors_;
    std::unordered_map<uint32_t, std::unique_ptr<Page>> pages_;
};

}  // namespace harness
