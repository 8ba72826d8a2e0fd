// Byte-addressed little-endian memory, the addresses of a cluster as its cores use them, and its banks.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "schema.hpp"

namespace harness {

class Memory {
  public:
    // The buffers stay the caller's. Words of a window without a place are answered with an error, if `guarded` all that
    // are in no window too.
    Memory(bool sparse, const Window* windows, uint64_t count, bool guarded = false)
        : sparse_(sparse), guarded_(guarded) {
        for (uint64_t i = 0; i < count; ++i) (windows[i].place ? windows_ : errors_).push_back(windows[i]);
    }

    bool fails(uint32_t address) const {
        if (holding(errors_, address)) return true;
        return __builtin_expect(guarded_, 0) && !window(address);
    }

    const Window* window(uint32_t address) const { return holding(windows_, address); }

    uint8_t* locate(uint32_t address) {
        address &= ~3u;
        if (const Window* found = window(address)) {
            return reinterpret_cast<uint8_t*>(found->place) + (address - found->base);
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

    void store(uint32_t address, uint32_t data, uint32_t bytes) {
        for (uint32_t i = 0; i < bytes; ++i, data >>= 8) {
            if (uint8_t* word = locate(address + i)) word[(address + i) & 3] = static_cast<uint8_t>(data);
        }
    }

  private:
    static constexpr uint32_t PAGE_BITS = 12;
    static constexpr uint32_t PAGE_BYTES = 1u << PAGE_BITS;
    using Page = std::array<uint8_t, PAGE_BYTES>;

    static const Window* holding(const std::vector<Window>& windows, uint32_t address) {
        for (const Window& window : windows) {
            if (address - window.base < window.size) return &window;
        }
        return nullptr;
    }

    bool sparse_, guarded_;
    std::vector<Window> windows_;
    std::vector<Window> errors_;
    std::unordered_map<uint32_t, std::unique_ptr<Page>> pages_;
};

// A core-local interruptor whose registers are words of memory.
class Clint {
  public:
    Clint(Memory& memory, uint32_t base) : memory_(memory), base_(base) {}

    // Stores the time, and sets the lines by the other registers.
    void tick(uint64_t time, uint32_t& lines) {
        uint64_t compare;
        uint32_t software;
        std::memcpy(memory_.locate(base_ + CLINT_MTIME), &time, sizeof time);
        std::memcpy(&compare, memory_.locate(base_ + CLINT_MTIMECMP), sizeof compare);
        std::memcpy(&software, memory_.locate(base_ + CLINT_MSIP), sizeof software);
        lines &= ~(1u << LINE_SOFTWARE | 1u << LINE_TIMER);
        lines |= (software & 1) << LINE_SOFTWARE | uint32_t{time >= compare} << LINE_TIMER;
    }

  private:
    Memory& memory_;
    uint32_t base_;
};

// Addresses of a cluster as its cores use them. Designs without banks have memory everywhere.
class AddressMap {
  public:
    static bool is_tcdm(uint32_t address) {
        const uint32_t place = address & ~(TCDM_SPACE - 1);
        return place == TCDM_BASE || place == TCDM_ALIAS || place == TEST_SET;
    }

    static bool is_device(uint32_t address) { return (address & ~(TCDM_SPACE - 1)) == CONTROL; }

    // Whether anything answers at `address`, which is the TCDM's or a device's; others are not known here. `clint` is
    // the address of the cluster's CLINT, or 0.
    static bool answers(uint32_t address, uint32_t tcdm_bytes, uint32_t clint = 0) {
        if (is_tcdm(address)) return (address & (TCDM_SPACE - 1)) < tcdm_bytes;
        if (!is_device(address)) return true;
        const uint32_t block = address - address % BLOCK_BYTES;
        if (clint && address - clint < CLINT_SPACE) return true;
        if (REFILL_PORTS && block == ICACHE_CONTROL) return true;
        if (DMA_PORTS && (block == DMA || block == PRIVATE_DMA)) return true;
        return block == CONTROL || block == TIMER || block == EVENT_UNIT || block == EVENT_UNIT + BLOCK_BYTES ||
               block == PRIVATE_EVENT_UNIT;
    }

    // What a wait of the core's port means for an access to `address`.
    static uint32_t wait(uint32_t cause, uint32_t address) {
        if (is_tcdm(address)) return cause == GRANT ? uint32_t{BANK_CONFLICT} : cause;
        if (!is_device(address)) return EXTERNAL;
        const uint32_t own = address - PRIVATE_EVENT_UNIT;
        if (own < BLOCK_BYTES) return own >= PRIVATE_BARRIERS ? BARRIER : EVENT;
        return address - EVENT_UNIT < SHARED_EVENT_UNIT_BYTES ? EVENT : PERIPHERAL;
    }

  private:
    static constexpr uint32_t TEST_SET = TCDM_BASE | 1u << TEST_SET_BIT;
    static constexpr uint32_t SHARED_EVENT_UNIT_BYTES = 2 * BLOCK_BYTES;
};

// Memory macros on the ports of a cluster's banks: word r of bank b is word r * BANKS + b of the TCDM.
class Banks {
  public:
    // `hash`: the bank of a word is the exclusive-or of all groups of bits of its number, instead of the lowest one.
    // `bytes` is the TCDM, in place.
    Banks(uint8_t* bytes, bool hash) : bytes_(bytes), hash_(hash) {}

    uint32_t address(uint32_t bank, const BankOut& seen) const {
        uint32_t column = bank;
        if (hash_ && BANKS > 1) {
            for (uint32_t rest = seen.addr; rest; rest /= BANKS_OR_2) column ^= rest % BANKS_OR_2;
        }
        return TCDM_BASE + (seen.addr * BANKS + column) * WORD;
    }

    // Performs an access; `read` takes the word if there is one to take.
    void access(uint32_t address, const BankOut& seen, uint32_t& read) {
        uint8_t* bytes = bytes_ + (address - TCDM_BASE);
        uint32_t word;
        std::memcpy(&word, bytes, sizeof word);
        if (seen.we) {
            Memory::write(bytes, word, seen.be, seen.wdata);
        } else {
            read = word;
        }
    }

  private:
    static constexpr uint32_t WORD = 4;
    static constexpr uint32_t BANKS_OR_2 = BANKS > 1 ? BANKS : 2;  // of one bank nothing is divided
    uint8_t* bytes_;
    bool hash_;
};

}  // namespace harness
