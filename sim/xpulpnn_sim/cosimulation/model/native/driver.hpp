// Surroundings of a design: memory on its buses, instructions, interrupt lines, what ends a run; one decision per cycle.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jtag.hpp"
#include "memory.hpp"
#include "obi.hpp"
#include "schema.hpp"
#include "stream.hpp"
#include "watched.hpp"

namespace harness {

using Waits = std::array<uint32_t, BEHIND_TRANSFER + 1>;

// Destination of what one hart reports in a block.
struct Records {
    Retirement* records;
    uint32_t* lines;  // interrupt lines at each retirement, see Driver::record()
    Waits* waits;     // waits before each
};

class Driver {
  public:
    Driver(const Settings& chosen, const Window* windows, uint64_t count)
        : settings(chosen),
          memory(chosen.sparse, windows, count, chosen.jtag != 0),
          stream(memory, status),
          banks_(BANKS ? memory.locate(TCDM_BASE) : nullptr, chosen.bank_hash),
          debugger_(static_cast<int>(chosen.jtag) - 1),
          random_(chosen.seed + 0x51ED) {
        const uint32_t fetch_stall = chosen.fetch_grant_stall, fetch_spread = chosen.fetch_latency;
        const uint32_t stall = chosen.grant_stall, least = chosen.data_latency, spread = chosen.response_latency;
        for (uint32_t port = 0; port < MOST_PORTS; ++port) {
            const uint32_t seed = (chosen.seed + 0x2545F491u * port) * 2;
            if (port < FETCH_PORTS) fetches_.emplace_back(memory, seed + 1, fetch_stall, 1, fetch_spread, 0);
            if (port < DATA_PORTS) buses_.emplace_back(memory, seed + 2, stall, least, spread, FAULT_DATA);
            if (port < DMA_PORTS) transfers_.emplace_back(memory, seed + 3, stall, least, spread, FAULT_DATA);
            if (port < REFILL_PORTS) refills_.emplace_back(memory, seed + 1, fetch_stall, least, fetch_spread, 0);
        }
        for (uint32_t hart = 0; hart < HARTS; ++hart) {
            driven.hart[hart].boot_addr = chosen.boot_addr;
            driven.hart[hart].hart_id = chosen.hart_id + hart;
            driven.hart[hart].fetch_enable = 1;
            driven.hart[hart].debug_halt_addr = chosen.debug_halt_addr;
            driven.hart[hart].debug_exception_addr = chosen.debug_exception_addr;
        }
        driven.collect = chosen.collect;
        drive();
    }

    Settings settings;
    Memory memory;
    Status status{};
    Stream stream;
    Driven driven{};  // inputs of the design in the coming cycle
    std::array<HartStatus, HARTS> harts{};
    std::array<Account, HARTS> accounts;
    std::array<Records, HARTS> records{};
    std::vector<Interrupt> interrupts;  // sorted by cycle
    std::vector<Activity> activities;
    Grant* grants = nullptr;
    uint32_t capacity = 0, grant_capacity = 0;

    // The clock edge: sees the cycle that ends, chooses the inputs of the next one.
    void edge(const Observed& seen) {
        const uint64_t cycle = ++status.cycles;
        if (!TOGETHER && seen.hart[0].core_sleep && under_way(seen)) status.events |= EARLY_SLEEP;
        for (uint32_t port = 0; port < FETCH_PORTS; ++port) {
            const FetchOut& out = seen.fetch[port];
            if (!TOGETHER && !fetches_[port].kept(out.req, out.addr, false, 0, 0)) status.events |= LOST_REQUEST;
            if (!TOGETHER && out.req && fetches_[port].open() >= MOST_FETCHES) status.events |= MANY_FETCHES;
            if (out.req && fetches_[port].grant) fetches_[port].request(cycle, out.addr, false, 0, 0);
            fetches_[port].advance(cycle + 1);
        }
        for (uint32_t port = 0; port < REFILL_PORTS; ++port) {
            if (seen.refill[port].req && refills_[port].grant) refills_[port].request(cycle, seen.refill[port]);
            refills_[port].advance(cycle + 1);
        }
        for (uint32_t port = 0; port < DATA_PORTS; ++port) {
            const DataOut& out = seen.data[port];
            if (!TOGETHER && !buses_[port].kept(out.req, out.addr, out.we, out.be, out.wdata)) {
                status.events |= LOST_REQUEST;
            }
            if (out.req && buses_[port].grant) access(cycle, port, out, !TOGETHER && seen.hart[0].debug_mode);
            buses_[port].advance(cycle + 1);
        }
        for (uint32_t bank = 0; bank < BANKS; ++bank) {
            if (seen.bank[bank].req) access(cycle, bank, seen.bank[bank]);
        }
        for (uint32_t port = 0; port < DMA_PORTS; ++port) {
            if (seen.dma[port].req && transfers_[port].grant) transfer(cycle, port, seen.dma[port]);
            transfers_[port].advance(cycle + 1);
        }
        for (uint32_t port = 0; port < LINE_PORTS; ++port) hear(cycle, seen.lines[port]);
        if (STREAMS && !stream.edge(cycle, seen.stream[0], driven.stream[0])) status.events |= WRONG_REDIRECT;
        for (uint32_t hart = 0; hart < HARTS; ++hart) watch(cycle, hart, seen);
        if (TOGETHER || JTAG_PORTS) give_up();
        for (uint32_t hart = 0; hart < HARTS; ++hart) raise(cycle, hart, seen.hart[hart]);
        if (JTAG_PORTS && settings.jtag) debug(seen);
        drive();
    }

    // Makes a command of the debugger between two clock edges, if one is there that needs no cycle.
    bool scan(const Observed& seen) {
        if (!settings.jtag || !debugger_.prompt()) return false;
        status.events |= debugger_.edge(seen.jtag[0], driven.jtag[0], false);
        return true;
    }

    // The first instruction of a handler is recorded with the lines that the interrupt was chosen from; `halt` gets the
    // causes of waits since the previous retirement.
    void record(uint32_t hart, const void* fields) {
        HartStatus& state = harts[hart];
        const uint32_t at = state.records++;
        Retirement& to = records[hart].records[at];
        to.order = state.retired;
        to.cycle = status.cycles + 1;
        std::memcpy(reinterpret_cast<char*>(&to) + FIRST_WORD, fields, sizeof to - FIRST_WORD);
        to.halt = waited_[hart];
        records[hart].lines[at] = to.intr ? lines_when_taken_[hart] : state.lines;
        records[hart].waits[at] = waits_[hart];
        if (state.records == capacity) status.events |= RECORDS_FULL;
    }

  private:
    static constexpr uint32_t FAULT_DATA = 0xBADACCE5;
    static constexpr bool TOGETHER = HARTS > 1 || BANKS;  // a hart that rests may be woken by others, or by a device
    // At most in a cycle: of each hart to a bank or another device, marks of test&set, ports of DMA engine and host, event lines.
    static constexpr uint32_t CYCLE_GRANTS = DATA_PORTS + BANKS + 2 * HARTS + 8 * DMA_PORTS + 3 * LINE_PORTS + 1;
    static constexpr uint32_t RESTING = ENDLESS_LOOP | STUCK;
    static constexpr uint32_t BROKEN_RULES = LOST_REQUEST | EARLY_SLEEP | WRONG_WAKE | MANY_FETCHES;
    // What a debugger may want to look at, or has brought about.
    static constexpr uint32_t DEBUGGED = BAD_ACCESS | BAD_FETCH | BROKEN_RULES;
    static constexpr uint32_t MOST_FETCHES = 4;  // words that a core alone may have under way
    static constexpr uint32_t PATIENCE = 1000;  // cycles without a retirement after which one of several harts rests
    static constexpr uint32_t PAUSE = 64;  // cycles without data after which an activity of the DMA engine has ended
    static constexpr uint32_t MOST_PORTS = std::max({FETCH_PORTS, DATA_PORTS, DMA_PORTS, REFILL_PORTS});
    static constexpr uint32_t FIRST_WORD = 2 * sizeof(uint64_t);  // in a record, behind the fields sampled here

    void drive() {
        drive(fetches_, driven.fetch);
        drive(refills_, driven.refill);
        drive(buses_, driven.data);
        drive(transfers_, driven.dma);
    }

    template <class In>
    static void drive(const std::vector<Obi>& buses, In* ports) {
        for (const Obi& bus : buses) *ports++ = {bus.grant, bus.rvalid, bus.err, bus.rdata, bus.rdata_high};
    }

    void log(const Grant& grant) {
        if (!settings.collect) return;
        grants[status.grants++] = grant;
        if (status.grants + CYCLE_GRANTS > grant_capacity) status.events |= RECORDS_FULL;
    }

    void access(uint64_t cycle, uint32_t bank, const BankOut& out) {
        const uint32_t address = banks_.address(bank, out);
        banks_.access(address, out, driven.bank[bank].rdata);
        log({cycle, out.master, address, out.we, out.be, out.wdata, 0});
        for (uint32_t rest = out.sharers; rest; rest &= rest - 1) {
            log({cycle, static_cast<uint32_t>(__builtin_ctz(rest)), address, 0, 0, 0, 0});
        }
        if (DMA_PORTS && out.master >= HARTS) still_ = 0;
        if (__builtin_expect(out.we && address == settings.tohost, 0)) tell(out.master);
    }

    // A transfer between DMA engine and external memory; cores that wait for its end are not in a deadlock.
    void transfer(uint64_t cycle, uint32_t port, const DmaOut& out) {
        still_ = 0;
        const bool inside = transfers_[port].request(cycle, out);
        move(cycle, out);
        if (out.be & 0xF) log({cycle, HARTS, out.addr, out.we, out.be & 0xF, out.wdata, 0});
        if (out.be >> 4) log({cycle, HARTS, out.addr + 4, out.we, out.be >> 4, out.wdata_high, 0});
        if (__builtin_expect(!inside && !(status.events & BAD_TRANSFER), 0)) {
            status.events |= BAD_TRANSFER;
            status.transfer = out.addr;
            status.transfer_writes = out.we;
        }
    }

    // Event lines, and timers that will raise one, so that a core that waits for them is not in a deadlock.
    void hear(uint64_t cycle, const LinesOut& lines) {
        if (lines.dma) log({cycle, LINE_EVENT, lines.dma, 0, 0, 0, 0});
        if (lines.dma_interrupt) log({cycle, LINE_EVENT + 1, lines.dma_interrupt, 0, 0, 0, 0});
        if (lines.timer) log({cycle, LINE_EVENT + 2, lines.timer, 0, 0, 0, 0});
        if (lines.timer_armed || settings.clint) still_ = 0;
    }

    void move(uint64_t cycle, const DmaOut& out) {
        if (activities.empty() || cycle > activities.back().last + settings.data_latency + PAUSE) {
            activities.push_back({cycle, cycle, 0, 0});
        }
        Activity& now = activities.back();
        now.last = cycle;
        (out.we ? now.written : now.read) += static_cast<uint32_t>(__builtin_popcount(out.be));
    }

    void tell(uint32_t hart) {
        uint32_t word;
        std::memcpy(&word, memory.locate(settings.tohost), sizeof word);
        if (!word) return;
        status.events |= TOHOST;
        status.value = word;
        status.hart = hart < HARTS ? hart : 0;
    }

    // Accesses of debug mode belong to no retirement.
    void access(uint64_t cycle, uint32_t port, const DataOut& out, bool debug_mode) {
        HartStatus& state = harts[out.hart < HARTS ? out.hart : 0];
        const bool inside = buses_[port].request(cycle, out.addr, out.we, out.be, out.wdata);
        if (!debug_mode) log({cycle, out.hart, out.addr, out.we, out.be, out.wdata, 0});
        if (__builtin_expect(!inside, 0)) {
            if (!state.bad_since) {
                state.bad_since = cycle;
                state.address = out.addr;
                state.write = out.we;
                state.mask = out.be;
            }
        } else if (__builtin_expect(out.we && out.addr == settings.tohost, 0)) {
            tell(out.hart);
        }
    }

    bool under_way(const Observed& seen) const {
        for (uint32_t port = 0; port < FETCH_PORTS; ++port) {
            if (seen.fetch[port].req || fetches_[port].open()) return true;
        }
        // another port is that of a coprocessor, which may load while the core sleeps
        return DATA_PORTS && (seen.data[0].req || buses_[0].open());
    }

    void watch(uint64_t cycle, uint32_t hart, const Observed& seen) {
        HartStatus& state = harts[hart];
        const RetireOut& out = seen.retire[hart];
        const bool quiet = !state.lines && !settings.irq_rate && !settings.halt_rate && next_ == interrupts.size() &&
                           !settings.clint;
        uint32_t events = 0;
        waits_[hart][NONE] += seen.hart[hart].core_sleep;
        if (out.valid) {
            // older instructions retire before or together with the request of an access
            if (__builtin_expect(state.bad_since && cycle > state.bad_since, 0)) {
                whole_access(state, out);
                events |= BAD_ACCESS;
            }
            events |= ends_[hart].retire(memory, out, quiet, FETCH_PORTS + REFILL_PORTS > 0);
            if (BANKS && (out.mem_rmask | out.mem_wmask)) {
                events |= outside(cycle, state, out);
                // an access is granted in EX and waits for its answer in WB
                if (AddressMap::is_device(out.mem_addr)) {
                    log({cycle - 1 - unanswered_[hart], DEVICE_ACCESS + hart, out.mem_addr, 0, 0, 0, 0});
                }
            }
            if (__builtin_expect(seen.hart[hart].lost, 0)) events |= LOST_RESULT;
            unanswered_[hart] = waited_[hart] = lines_asleep_[hart] = 0;
            transferred_[hart] = out.pc_wdata != out.pc_rdata + ((out.insn & 3) == 3 ? 4 : 2);
            ++state.retired;
            if (TOGETHER) state.interrupts += out.intr;
            state.last_cycle = cycle;
            state.previous_pc = state.pc;
            state.pc = out.pc_rdata;
            state.next_pc = out.pc_wdata;
            state.cause = out.cause;
            // a handler that traps where it begins says nothing of how it was entered
            if (__builtin_expect(out.trap && out.pc_rdata != out.pc_wdata && !ends_[hart].again(), 0)) {
                state.trap_from = state.previous_pc;
                state.trap_jump = state.jumped;
                state.trap_address = out.mem_addr;
                state.trap_pc = out.pc_rdata;
                state.trap_cause = out.cause;
            }
            if ((out.insn & 0x7F) == 0x67 || ((out.insn & 0xE07F) == 0x8002 && out.insn & 0xF80)) state.jumped = out.pc_rdata;
            if (accounts[hart].runs()) accounts[hart].retire(out.pc_rdata, out.mem_addr);
        } else {
            const uint32_t patience = TOGETHER ? PATIENCE : settings.watchdog;
            events |= ends_[hart].wait(seen.hart[hart].core_sleep, quiet, halted(seen.hart[hart]) ? 0 : patience);
            if (accounts[hart].runs()) accounts[hart].wait(out.wait);
            unanswered_[hart] += out.wait == RESPONSE;
            count(hart, out.wait);
            waited_[hart] |= 1u << out.wait;
        }
        rest(state, out, events, halted(seen.hart[hart]));
        if (TOGETHER || JTAG_PORTS) events &= ~uint32_t{RESTING};
        if (__builtin_expect(events, 0)) {
            status.events |= events;
            status.hart = hart;
        }
    }

    void count(uint32_t hart, uint32_t cause) {
        if (cause == FETCH && waited_[hart] & REFILLS) return;
        ++waits_[hart][cause == FETCH && transferred_[hart] ? BEHIND_TRANSFER : cause];
    }

    // An access inside the cluster where nothing is; what is not there cannot be seen on a bus.
    uint32_t outside(uint64_t cycle, HartStatus& state, const RetireOut& out) {
        if (__builtin_expect(AddressMap::answers(out.mem_addr, settings.tcdm_bytes, settings.clint), 1)) return 0;
        state.bad_since = cycle;
        state.write = out.mem_wmask != 0;
        whole_access(state, out);
        return BAD_ACCESS;
    }

    // The bad access as the instruction makes it, which may be two words on the bus; of pv.qnt the one on the bus.
    static void whole_access(HartStatus& state, const RetireOut& out) {
        if (!(out.mem_rmask | out.mem_wmask)) return;
        state.address = out.mem_addr;
        state.mask = out.mem_rmask | out.mem_wmask;
    }

    // Whether a debugger has halted a hart, or is to do so before it starts.
    bool halted(const HartOut& seen) const { return JTAG_PORTS && (settings.held || seen.debug_mode); }

    // Whether a hart can go on by itself: one that retires something else can, one that waits stays as it is.
    void rest(HartStatus& state, const RetireOut& out, uint32_t events, bool is_halted) {
        const uint32_t now = events & RESTING;
        if (__builtin_expect(now != state.resting && (out.valid || now || is_halted), 0)) {
            resting_ += (now != 0) - (state.resting != 0);
            state.resting = now;
            state.wait_cause = out.wait;
            // an access that waits for its answer is shown as long as it does
            state.wait_address = out.wait == RESPONSE ? out.mem_addr : 0;
        }
    }

    // All harts have been resting for too long.
    void give_up() {
        still_ = resting_ < HARTS ? 0 : still_ + 1;
        if (__builtin_expect(still_ <= settings.watchdog, 1)) return;
        for (const HartStatus& state : harts) status.events |= state.resting;
        still_ = status.hart = 0;
    }

    void raise(uint64_t cycle, uint32_t hart, const HartOut& seen) {
        HartStatus& state = harts[hart];
        if (seen.core_sleep) {
            lines_asleep_[hart] = state.lines;
            asleep_at_[hart] = cycle;
        }
        if (seen.irq_ack) {
            const bool waited = lines_asleep_[hart] >> seen.irq_id & 1;
            if (!TOGETHER && (waited || asleep_at_[hart] + 1 == cycle)) status.events |= WRONG_WAKE;
            lines_when_taken_[hart] = state.lines;
            state.lines &= ~(1u << seen.irq_id);
            ++state.interrupts;
        }
        uint32_t& halt = driven.hart[hart].debug_req;
        if (seen.debug_mode) halt = 0;
        while (__builtin_expect(hart == 0 && next_ < interrupts.size() && interrupts[next_].cycle <= cycle, 0)) {
            const uint32_t line = interrupts[next_++].line;
            if (line == IRQ_LINES) halt = 1;
            else state.lines |= 1u << line;
        }
        if (settings.halt_rate && !seen.debug_mode && random_.next() < settings.halt_rate) halt = 1;
        if (settings.irq_rate && random_.next() < settings.irq_rate) {
            state.lines |= 1u << USABLE_LINES[random_.next() % (sizeof USABLE_LINES / sizeof *USABLE_LINES)];
        }
        if (!TOGETHER && settings.clint) Clint(memory, settings.clint).tick(status.cycles, state.lines);
        driven.hart[hart].irq = state.lines;
    }

    // Harts that are held get instructions while they are asked to halt, so that they halt before the first one; and for
    // good behind the last such request, as debuggers let each hart go at first when they have looked at it.
    void debug(const Observed& seen) {
        const uint32_t asked = seen.jtag[0].debug_req;
        if (settings.held && asked && !asked_) --settings.held;
        asked_ = asked;
        bool quiet = true;
        for (uint32_t hart = 0; hart < HARTS; ++hart) quiet &= halted(seen.hart[hart]);
        for (uint32_t port = 0; settings.held && port < FETCH_PORTS; ++port) {
            if (!(asked >> port & 1)) fetches_[port].grant = false;
        }
        status.events &= ~DEBUGGED;
        status.events |= debugger_.edge(seen.jtag[0], driven.jtag[0], quiet);
    }

    std::vector<Obi> fetches_, refills_, buses_, transfers_;
    Banks banks_;
    std::array<Ends, HARTS> ends_;
    std::array<uint32_t, HARTS> lines_when_taken_{};
    std::array<uint32_t, HARTS> lines_asleep_{};  // in the last cycle of core_sleep, if nothing has retired since
    std::array<uint64_t, HARTS> asleep_at_{};  // that cycle
    std::array<uint64_t, HARTS> unanswered_{};  // cycles that the access in WB has been waiting for its answer
    std::array<uint32_t, HARTS> waited_{};  // causes of the cycles since the last retirement, a bit each
    std::array<bool, HARTS> transferred_{};  // another instruction than the next in memory follows it
    std::array<Waits, HARTS> waits_{};
    uint32_t resting_ = 0, still_ = 0;  // harts that rest, and cycles since all of them do
    RemoteBitbang debugger_;
    uint32_t asked_ = 0;  // harts that were to halt in the cycle before
    Random random_;
    size_t next_ = 0;
};

}  // namespace harness
