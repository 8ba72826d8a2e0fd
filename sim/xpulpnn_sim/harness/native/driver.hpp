// Surroundings of a design: memory on its buses, instructions, interrupt lines, what ends a run; one decision per cycle.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "account.hpp"
#include "ends.hpp"
#include "memory.hpp"
#include "obi.hpp"
#include "schema.hpp"
#include "stream.hpp"

namespace harness {

// Destination of what one hart reports in a block.
struct Records {
    Retirement* records;
    uint32_t* lines;  // interrupt lines at each retirement, see Driver::record()
};

class Driver {
  public:
    explicit Driver(const Settings& chosen)
        : settings(chosen), memory(chosen.sparse), stream(memory), random_(chosen.seed + 0x51ED) {
        for (uint32_t port = 0; port < FETCH_PORTS; ++port) {
            fetches_.emplace_back(memory, seed(port) + 1, chosen.fetch_grant_stall, chosen.fetch_latency, 0);
        }
        for (uint32_t port = 0; port < DATA_PORTS; ++port) {
            buses_.emplace_back(memory, seed(port) + 2, chosen.grant_stall, chosen.response_latency, FAULT_DATA);
        }
        for (uint32_t hart = 0; hart < HARTS; ++hart) {
            driven.hart[hart].boot_addr = chosen.boot_addr;
            driven.hart[hart].hart_id = chosen.hart_id + hart;
            driven.hart[hart].fetch_enable = 1;
        }
        driven.collect = chosen.collect;
        drive();
    }

    Settings settings;
    Memory memory;
    Stream stream;
    Driven driven{};  // inputs of the design in the coming cycle
    Status status{};
    std::array<HartStatus, HARTS> harts{};
    std::array<Account, HARTS> accounts;
    std::array<Records, HARTS> records{};
    std::vector<Interrupt> interrupts;  // sorted by cycle
    Grant* grants = nullptr;
    uint32_t capacity = 0, grant_capacity = 0;

    // The clock edge: sees the cycle that ends, chooses the inputs of the next one.
    void edge(const Observed& seen) {
        const uint64_t cycle = ++status.cycles;
        for (uint32_t port = 0; port < FETCH_PORTS; ++port) {
            const FetchOut& out = seen.fetch[port];
            if (out.req && fetches_[port].grant) fetches_[port].request(cycle, out.addr, false, 0, 0);
            fetches_[port].advance(cycle + 1);
        }
        for (uint32_t port = 0; port < DATA_PORTS; ++port) {
            if (seen.data[port].req && buses_[port].grant) access(cycle, port, seen.data[port]);
            buses_[port].advance(cycle + 1);
        }
        if (STREAMS && !stream.edge(cycle, seen.stream[0], driven.stream[0])) status.events |= WRONG_REDIRECT;
        for (uint32_t hart = 0; hart < HARTS; ++hart) watch(cycle, hart, seen);
        for (uint32_t hart = 0; hart < HARTS; ++hart) raise(cycle, hart, seen.hart[hart]);
        drive();
    }

    // The first instruction of an interrupt handler comes with the lines that the interrupt was chosen from.
    void record(uint32_t hart, const void* fields) {
        HartStatus& state = harts[hart];
        const uint32_t at = state.records++;
        Retirement& to = records[hart].records[at];
        to.order = state.retired;
        to.cycle = status.cycles + 1;
        std::memcpy(reinterpret_cast<char*>(&to) + FIRST_WORD, fields, sizeof to - FIRST_WORD);
        records[hart].lines[at] = to.intr ? lines_when_taken_[hart] : state.lines;
        if (state.records == capacity) status.events |= RECORDS_FULL;
    }

  private:
    static constexpr uint32_t FAULT_DATA = 0xBADACCE5;
    static constexpr uint32_t FIRST_WORD = 2 * sizeof(uint64_t);  // in a record, behind the fields sampled here

    uint32_t seed(uint32_t port) const { return (settings.seed + 0x2545F491u * port) * 2; }

    void drive() {
        for (uint32_t port = 0; port < FETCH_PORTS; ++port) {
            driven.fetch[port] = {fetches_[port].grant, fetches_[port].rvalid, fetches_[port].rdata,
                                  fetches_[port].err};
        }
        for (uint32_t port = 0; port < DATA_PORTS; ++port) {
            driven.data[port] = {buses_[port].grant, buses_[port].rvalid, buses_[port].rdata, buses_[port].err};
        }
    }

    void access(uint64_t cycle, uint32_t port, const DataOut& out) {
        HartStatus& state = harts[out.hart];
        const bool inside = buses_[port].request(cycle, out.addr, out.we, out.be, out.wdata);
        if (settings.collect) {
            grants[status.grants++] = {cycle, out.hart, out.addr, out.we, out.be, out.wdata, 0};
            if (status.grants + DATA_PORTS > grant_capacity) status.events |= RECORDS_FULL;
        }
        if (__builtin_expect(!inside, 0)) {
            if (!state.bad_since) {
                state.bad_since = cycle;
                state.address = out.addr;
                state.write = out.we;
                state.mask = out.be;
            }
        } else if (__builtin_expect(out.we && out.addr == settings.tohost, 0)) {
            uint32_t word;
            std::memcpy(&word, memory.locate(out.addr), sizeof word);
            if (word) {
                status.events |= TOHOST;
                status.value = word;
                status.hart = out.hart;
            }
        }
    }

    void watch(uint64_t cycle, uint32_t hart, const Observed& seen) {
        HartStatus& state = harts[hart];
        const RetireOut& out = seen.retire[hart];
        const bool quiet = !state.lines && !settings.irq_rate && next_ == interrupts.size();
        uint32_t events = 0;
        if (out.valid) {
            // older instructions retire before or together with the request of an access
            if (__builtin_expect(state.bad_since && cycle > state.bad_since, 0)) events |= BAD_ACCESS;
            events |= ends_[hart].retire(memory, out, quiet, FETCH_PORTS > 0);
            ++state.retired;
            state.last_cycle = cycle;
            state.previous_pc = state.pc;
            state.pc = out.pc_rdata;
            state.cause = out.cause;
            // a handler that traps at its first instruction says nothing of how it was entered
            if (__builtin_expect(out.trap && out.pc_rdata != out.pc_wdata, 0)) {
                state.trap_pc = out.pc_rdata;
                state.trap_cause = out.cause;
            }
            if (accounts[hart].runs()) accounts[hart].retire(out.pc_rdata);
        } else {
            events |= ends_[hart].wait(seen.hart[hart].core_sleep, quiet, settings.watchdog);
            if (accounts[hart].runs()) accounts[hart].wait(out.wait);
        }
        const bool endless = events & ENDLESS_LOOP;
        if (__builtin_expect(endless != endless_[hart], 0)) {
            endless_[hart] = endless;
            if (endless) ++idle_harts_;
            else --idle_harts_;
        }
        // harts that wait for others end nothing
        if (idle_harts_ < HARTS) events &= ~uint32_t{ENDLESS_LOOP};
        if (__builtin_expect(events, 0)) {
            status.events |= events;
            status.hart = hart;
        }
    }

    void raise(uint64_t cycle, uint32_t hart, const HartOut& seen) {
        HartStatus& state = harts[hart];
        if (seen.irq_ack) {
            lines_when_taken_[hart] = state.lines;
            state.lines &= ~(1u << seen.irq_id);
            ++state.interrupts;
        }
        while (__builtin_expect(hart == 0 && next_ < interrupts.size() && interrupts[next_].cycle <= cycle, 0)) {
            state.lines |= 1u << interrupts[next_++].line;
        }
        if (settings.irq_rate && random_.next() < settings.irq_rate) {
            state.lines |= 1u << USABLE_LINES[random_.next() % (sizeof USABLE_LINES / sizeof *USABLE_LINES)];
        }
        driven.hart[hart].irq = state.lines;
    }

    std::vector<Obi> fetches_, buses_;
    std::array<Ends, HARTS> ends_;
    std::array<uint32_t, HARTS> lines_when_taken_{};
    std::array<bool, HARTS> endless_{};
    uint32_t idle_harts_ = 0;
    Random random_;
    size_t next_ = 0;
};

}  // namespace harness
