// Surroundings of the core: memories, interrupt lines, and what ends a run; one decision per clock cycle.
#pragma once
#include <cstdint>
#include <vector>

#include "bus.hpp"
#include "memory.hpp"

namespace cosim {

// What Python chooses (harness/core_abi.py mirrors every struct of this file, field by field).
struct CoreSettings {
    uint32_t grant_stall, response_latency;  // data port, as in Settings
    uint32_t fetch_grant_stall, fetch_latency;
    uint32_t irq_rate;  // a line rises when a 32-bit random number is below this
    uint32_t seed;
    uint32_t boot_addr, hart_id;
    uint32_t tohost;
    uint32_t collect;   // 1: retirements are recorded
    uint32_t watchdog;  // cycles without a retirement, not asleep, before the run is given up
    uint32_t unused;
    uint64_t dump_from, dump_to;  // clock cycles in the waveform
};

// One retired instruction: RETIREMENT of xpulpnn_sim/retirement.py.
struct CoreRetirement {
    uint64_t order, cycle;
    uint32_t insn, pc_rdata, pc_wdata, trap, intr, cause, halt, mode, ixl, rs1_addr;
    uint32_t rs2_addr, rs1_rdata, rs2_rdata, rd_rdata, rd_we, rd_addr, rd_wdata, base_we, base_addr, base_wdata;
    uint32_t mem_addr, mem_rmask, mem_wmask, mem_rdata, mem_wdata, nn_act_rdata, nn_wgt_rdata, nn_we, nn_addr, nn_wdata;
};

// A line that rises at a cycle.
struct CoreIrq {
    uint64_t cycle;
    uint32_t line;
    uint32_t unused;
};

enum CoreEvent : uint32_t {
    CYCLE_LIMIT = 1u << 0,
    RECORDS_FULL = 1u << 1,
    TOHOST = 1u << 2,
    BAD_ACCESS = 1u << 3,
    BAD_FETCH = 1u << 4,
    TRAP_LOOP = 1u << 5,
    ENDLESS_LOOP = 1u << 6,
    STUCK = 1u << 7,
};

struct CoreStatus {
    uint64_t cycles, retired, interrupts;
    uint32_t events;
    uint32_t pc, previous_pc;      // last retirement and the one before
    uint32_t value;                // written to tohost
    uint32_t address, write, mask;  // access outside memory
    uint32_t cause;                // mcause of a trap loop
    uint32_t records;              // in the buffer
    uint32_t lines;                // interrupt lines
};

// Outputs of the core in the cycle that ends.
struct CoreOutputs {
    bool fetch, request, we, ack, sleep, valid, trap;
    uint32_t be, irq_id, cause, fetch_address, address, wdata, pc, next_pc, insn;
};

class CoreDriver {
  public:
    explicit CoreDriver(const CoreSettings& chosen)
        : settings(chosen),
          memory(false),
          fetch_bus(memory, chosen.seed * 2 + 1, chosen.fetch_grant_stall, chosen.fetch_latency, 0),
          data_bus(memory, chosen.seed * 2 + 2, chosen.grant_stall, chosen.response_latency, Bus::FAULT_DATA),
          random_(chosen.seed + 0x51ED) {}

    CoreSettings settings;
    Memory memory;
    Bus fetch_bus, data_bus;
    CoreStatus status{};
    std::vector<CoreIrq> irqs;  // sorted by cycle
    CoreRetirement* records = nullptr;
    uint32_t* record_lines = nullptr;  // for each record: interrupt lines at the retirement, see record()
    uint32_t capacity = 0;

    // The clock edge: sees the cycle that ends, chooses the inputs of the next one.
    void edge(const CoreOutputs& out) {
        const uint64_t cycle = ++status.cycles;
        if (out.fetch && fetch_bus.grant) fetch_bus.request(cycle, out.fetch_address, false, 0, 0);
        if (out.request && data_bus.grant) access(cycle, out);
        fetch_bus.advance(cycle + 1);
        data_bus.advance(cycle + 1);
        if (out.valid) retire(cycle, out);
        else if (!out.sleep && ++idle_ > settings.watchdog) status.events |= STUCK;
        interrupts(cycle, out);
        if (__builtin_expect(out.sleep && quiet(), 0)) status.events |= ENDLESS_LOOP;
    }

    // The first instruction of an interrupt handler comes with the lines that the interrupt was chosen from.
    void record(const CoreRetirement& retirement) {
        record_lines[status.records] = retirement.intr ? lines_when_taken_ : status.lines;
        records[status.records++] = retirement;
        if (status.records == capacity) status.events |= RECORDS_FULL;
    }

  private:
    void access(uint64_t cycle, const CoreOutputs& out) {
        if (!data_bus.request(cycle, out.address, out.we, out.be, out.wdata)) {
            if (!bad_since_) {
                bad_since_ = cycle;
                status.address = out.address;
                status.write = out.we;
                status.mask = out.be;
            }
        } else if (__builtin_expect(out.we && out.address == settings.tohost, 0)) {
            uint32_t word;
            std::memcpy(&word, memory.locate(out.address), sizeof word);
            if (word) {
                status.events |= TOHOST;
                status.value = word;
            }
        }
    }

    void retire(uint64_t cycle, const CoreOutputs& out) {
        // older instructions retire before or together with the request of an access
        if (__builtin_expect(bad_since_ && cycle > bad_since_, 0)) status.events |= BAD_ACCESS;
        idle_ = 0;
        ++status.retired;
        status.previous_pc = status.pc;
        status.pc = out.pc;
        if (__builtin_expect(out.trap, 0)) {
            // a handler whose first instruction traps comes back to itself for ever
            if (trapped_ && out.pc == out.next_pc) {
                status.events |= TRAP_LOOP;
                status.cause = out.cause;
            }
        } else if (__builtin_expect(out.next_pc == out.pc && jumps(out.insn) && quiet(), 0)) {
            status.events |= ENDLESS_LOOP;
        }
        trapped_ = out.trap;
        if (__builtin_expect((out.pc ^ page_) >> PAGE_BITS, 0)) {
            if (!memory.locate(out.pc)) status.events |= BAD_FETCH;
            page_ = out.pc;
        }
    }

    // Jumps, and branches with the offset 0; one to itself changes nothing but its link.
    static bool jumps(uint32_t insn) {
        constexpr uint32_t JAL = 0x6F, C_J = 0xA001, C_JAL = 0x2001;
        constexpr uint32_t BRANCH = 0x63, BRANCH_OFFSET = 0xFE000F80, C_BRANCH = 0xC001, C_BRANCH_OFFSET = 0x1C7C;
        return (insn & 0x7F) == JAL || (insn & 0xE003) == C_J || (insn & 0xE003) == C_JAL ||
               (insn & (0x7F | BRANCH_OFFSET)) == BRANCH || (insn & (0xC003 | C_BRANCH_OFFSET)) == C_BRANCH;
    }

    // No interrupt can come any more.
    bool quiet() const { return !status.lines && !settings.irq_rate && next_irq_ == irqs.size(); }

    void interrupts(uint64_t cycle, const CoreOutputs& out) {
        if (out.ack) {
            lines_when_taken_ = status.lines;
            status.lines &= ~(1u << out.irq_id);
            ++status.interrupts;
        }
        while (__builtin_expect(next_irq_ < irqs.size() && irqs[next_irq_].cycle <= cycle, 0)) {
            status.lines |= 1u << irqs[next_irq_++].line;
        }
        if (settings.irq_rate && random_.next() < settings.irq_rate) {
            constexpr uint32_t USABLE[] = {3, 7, 11, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
            status.lines |= 1u << USABLE[random_.next() % (sizeof USABLE / sizeof *USABLE)];
        }
    }

    static constexpr uint32_t PAGE_BITS = 2;
    Random random_;
    bool trapped_ = false;
    uint32_t idle_ = 0, page_ = ~0u;
    uint32_t lines_when_taken_ = 0;
    uint64_t bad_since_ = 0;
    size_t next_irq_ = 0;
};

}  // namespace cosim
