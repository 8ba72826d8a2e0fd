// Sequential state of a hart, followed by its retirements: every source, load, next address and CSR must be what the
// earlier ones left. Results are taken over; Python compares them with the reference models.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "csrs.hpp"
#include "followed.hpp"
#include "memory.hpp"
#include "schema.hpp"

namespace harness {

class Hart {
  public:
    Hart(uint32_t number, const CheckSettings& settings, const Text& text, Memory& shadow, Order& order, ErrorLog& log)
        : number_(number), settings_(settings), text_(text), shadow_(shadow), order_(order), log_(log), pc_(settings.entry & ~1u) {}

    void add_csrs(const CsrState* csrs, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) csrs_[csrs[i].address] = csrs[i];
    }

    // Looks the instructions of a block up; returns the number of words not known yet, which go to `unknown`.
    uint32_t find(const Retirement* records, uint32_t count, uint32_t* unknown) {
        records_ = records;
        count_ = count;
        position_ = 0;
        chosen_.resize(count);
        uint32_t missing = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t raw = records[i].insn;
            Line& line = lines_[records[i].pc_rdata >> 1 & (LINES - 1)];
            if (__builtin_expect(!line.insn || line.raw != raw, 0)) {
                const auto found = text_.find(raw);
                if (found == text_.end()) {
                    unknown[missing++] = raw;
                    continue;
                }
                line = {raw, &found->second};
            }
            chosen_[i] = line.insn;
        }
        return missing;
    }

    void distribute(uint32_t groups, uint32_t* starts, uint32_t* values) {
        table_.fill(records_, chosen_, groups, starts, values);
    }

    // Sets targets of branches and jumps, and the interrupt lines of each retirement, nullptr if unknown.
    void transfers(const uint32_t* lines, const uint8_t* taken, const uint32_t* targets) {
        irq_lines_ = lines;
        taken_ = taken;
        targets_ = targets;
    }

    bool done() const { return position_ == count_; }
    uint64_t cycle() const { return records_[position_].cycle; }

    void step() {
        record_ = &records_[position_];
        insn_ = chosen_[position_];
        retire(taken_[position_], targets_[position_]);
        if (irq_lines_) watch();
        ++position_;
    }

  private:
    using Field = uint32_t Retirement::*;
    static constexpr uint32_t LINES = 1u << 12;
    static constexpr uint32_t PATIENCE = 8;  // retirements; those under way when an interrupt comes are fewer

    struct Line {
        uint32_t raw;
        const CheckInsn* insn;
    };

    void retire(bool taken, uint32_t target) {
        const Retirement& r = *record_;
        if (__builtin_expect(started_ && r.order != order_number_ + 1, 0)) {
            add(offsetof(Retirement, order), static_cast<uint32_t>(order_number_ + 1), static_cast<uint32_t>(r.order));
        }
        started_ = true;
        order_number_ = r.order;
        const uint32_t line = r.intr ? interrupt() : 0;
        expect(&Retirement::pc_rdata, pc_);
        // a stream comes from no memory, and nothing in it may trap
        const bool fails = settings_.has_front_end && fetch_fails();
        if (settings_.has_front_end && !fails) fetch();
        uint32_t raised = fails ? INSTRUCTION_ACCESS_FAULT : settings_.has_front_end ? exception() : 0;
        if (!raised && (raised = insn_->action == QUANTISE ? quantise() : access_fault())) {
            sources();
            access();
        }
        expect(&Retirement::trap, raised != 0);
        expect(&Retirement::cause, raised ? raised : line);
        if (r.trap) {
            for (Field effect : {&Retirement::rd_we, &Retirement::rd2_we, &Retirement::base_we, &Retirement::nn_we,
                                 &Retirement::mem_rmask, &Retirement::mem_wmask}) {
                expect(effect, 0);
            }
            pc_ = csrs_.enter_trap(r.cause & CAUSE_CODE, r.pc_rdata);
        } else {
            sources();
            access();
            results();
            pc_ = advance(taken, target);
        }
        if (settings_.has_front_end) {
            expect(&Retirement::pc_wdata, pc_);
            pc_ = r.pc_wdata;
        }
    }

    // Whether the bus answers a part of the instruction with an error; then the record shows no word.
    bool fetch_fails() {
        const uint32_t pc = record_->pc_rdata;
        const bool fails = shadow_.fails(pc) || (shadow_.fails(pc + 2) && (shadow_.load(pc) & 3) == 3);
        if (__builtin_expect(fails, 0)) expect(&Retirement::insn, 0);
        return fails;
    }

    void fetch() {
        const Retirement& r = *record_;
        uint32_t word = shadow_.load(r.pc_rdata);
        if ((word & 3) != 3) word &= 0xFFFF;
        if (__builtin_expect(word != r.insn, 0) && ((word ^ r.insn) & known_bits(r.pc_rdata))) {
            add(offsetof(Retirement, insn), word, r.insn);
        }
    }

    // The cause if the instruction is to trap, or 0.
    uint32_t exception() const {
        const uint32_t action = insn_->action;
        if (action == RAISE) return insn_->number;
        if (action >= CSR_READ && action <= CSR_CLEAR) {
            const uint32_t flags = csrs_[insn_->number].flags;
            if (!(flags & PRESENT) || (flags & READ_ONLY && action != CSR_READ)) return ILLEGAL_INSTRUCTION;
        }
        return 0;
    }

    uint32_t access_fault() const {
        const bool loads = insn_->properties & LOADS, stores = insn_->properties & STORES;
        if (!loads && !stores) return 0;
        const uint32_t first = record_->mem_addr, last = first + insn_->access - 1;
        if (!shadow_.fails(first) && !shadow_.fails(last) && answers(first) && answers(last)) return 0;
        return stores ? STORE_ACCESS_FAULT : LOAD_ACCESS_FAULT;
    }

    bool answers(uint32_t address) const {
        return !settings_.tcdm_bytes || AddressMap::answers(address, settings_.tcdm_bytes);
    }

    void sources() {
        const CheckInsn& insn = *insn_;
        const uint32_t has = insn.properties;
        if (has & READS_RS1) {
            expect(&Retirement::rs1_rdata, gpr_[insn.rs1]);
            expect(&Retirement::rs1_addr, insn.rs1);
        }
        if (has & READS_RS2) {
            expect(&Retirement::rs2_rdata, gpr_[insn.rs2]);
            expect(&Retirement::rs2_addr, insn.rs2);
        }
        if (has & READS_RD) expect(&Retirement::rd_rdata, gpr_[insn.rd]);
        if (has & READS_ACT) expect(&Retirement::nn_act_rdata, nnrf_[insn.act]);
        if (has & READS_WGT) expect(&Retirement::nn_wgt_rdata, nnrf_[insn.wgt]);
    }

    // The memory access: what the bus did for it must be what it says, and what it loaded what the bus order gives.
    // Of one that fails the second transfer is not requested if the first one is answered with an error.
    void access() {
        const Retirement& r = *record_;
        const CheckInsn& insn = *insn_;
        const bool loads = insn.properties & LOADS, stores = insn.properties & STORES;
        const uint32_t lanes = (1u << insn.access) - 1;
        if (!r.trap) {
            expect(&Retirement::mem_rmask, loads ? lanes : 0);
            expect(&Retirement::mem_wmask, stores ? lanes : 0);
        }
        if (!loads && !stores) return;
        const uint32_t bits = insn.access == 4 ? ~0u : (1u << 8 * insn.access) - 1;
        const uint32_t skipped = r.mem_addr & 3, shift = 8 * skipped;
        const uint32_t enables = lanes << skipped;
        if (settings_.tcdm_bytes && AddressMap::is_device(r.mem_addr)) {
            // loads from devices are checked elsewhere
            if (loads && r.mem_rdata & ~bits) add(offsetof(Retirement, mem_rdata), r.mem_rdata & bits, r.mem_rdata);
            return;
        }
        if (!answers(r.mem_addr)) return;
        uint64_t word = transfer(r.mem_addr & ~3u, stores, enables & 0xF, r.mem_wdata << shift);
        if (shadow_.fails(r.mem_addr)) return;
        if (enables >> 4 && answers((r.mem_addr & ~3u) + 4)) {
            const uint32_t rest = static_cast<uint32_t>(uint64_t{r.mem_wdata} << shift >> 32);
            word |= uint64_t{transfer((r.mem_addr & ~3u) + 4, stores, enables >> 4, rest)} << 32;
        }
        const uint32_t loaded = static_cast<uint32_t>(word >> shift) & bits;
        if (loads && !r.trap && __builtin_expect(loaded != r.mem_rdata, 0) &&
            ((loaded ^ r.mem_rdata) & (known_bits(in_memory(r.mem_addr)) | ~bits))) {
            add(offsetof(Retirement, mem_rdata), loaded, r.mem_rdata);
        }
    }

    // pv.qnt: the bus must have read the thresholds that the search asks for, and the result be what they give, unless
    // some of them cannot be known here. Returns the cause if one of the reads is answered with an error, or 0.
    uint32_t quantise() {
        const Retirement& r = *record_;
        ThresholdSearch search(gpr_[insn_->rs1], gpr_[insn_->rs2], insn_->number);
        bool known = true;
        while (!search.done()) {
            const uint32_t address = search.address(), place = in_memory(address), shift = 8 * (address & 3);
            if (settings_.tcdm_bytes && AddressMap::is_device(address)) return 0;
            if (!answers(address)) return LOAD_ACCESS_FAULT;
            const Access* skipped = known ? nullptr : order_.claim(number_, r.cycle);
            const uint32_t word = skipped ? skipped->word : transfer(address & ~3u, false, 3u << (address & 3), 0);
            if (shadow_.fails(place)) return LOAD_ACCESS_FAULT;
            known = known && !(~known_bits(place) & 0xFFFF);
            search.answer(word >> shift);
        }
        if (known && !r.trap && insn_->rd) expect(&Retirement::rd_wdata, search.result());
        return 0;
    }

    // One access of the bus; returns the word that was there.
    uint32_t transfer(uint32_t address, bool we, uint32_t be, uint32_t wdata) {
        const Access* access = order_.claim(number_, record_->cycle);
        const uint32_t place = in_memory(address);
        if (!access) {
            add(BUS_REQ, 1, 0);
            return shadow_.load(place);
        }
        const Grant& grant = access->grant;
        if (grant.address != place) add(BUS_ADDR, place, grant.address);
        if (grant.we != we) add(BUS_WE, we, grant.we);
        if (we) {
            uint32_t mask = 0;
            for (uint32_t lane = 0; lane < 4; ++lane) mask |= (be >> lane & 1) * 0xFFu << 8 * lane;
            if (grant.be != be) add(BUS_BE, be, grant.be);
            if ((grant.wdata ^ wdata) & mask) add(BUS_WDATA, wdata & mask, grant.wdata & mask);
        }
        if (settings_.tcdm_bytes && !we && AddressMap::tests_and_sets(address)) marked(*access, be);
        return access->word;
    }

    // A test&set is followed by a write of ones into the bytes it has read, before anybody reads the word.
    void marked(const Access& access, uint32_t be) {
        const Access* mark = order_.following(&access);
        const bool writes = mark && mark->grant.hart == NO_MASTER && mark->grant.we;
        if (!writes) {
            add(BUS_WE, 1, 0);
            return;
        }
        if (mark->grant.be != be) add(BUS_BE, be, mark->grant.be);
        if (mark->grant.wdata != ~0u) add(BUS_WDATA, ~0u, mark->grant.wdata);
    }

    uint32_t in_memory(uint32_t address) const {
        return settings_.tcdm_bytes ? AddressMap::canonical(address) : address;
    }

    // Writes of registers. Those of x0 are not reported; with rd = rs1 the incremented base may be.
    void results() {
        const Retirement& r = *record_;
        const CheckInsn& insn = *insn_;
        const uint32_t has = insn.properties;
        const bool writes_rd = (has & WRITES_RD) && insn.rd, writes_base = (has & WRITES_BASE) && insn.rs1;
        const bool rd_we = r.rd_we && r.rd_addr, base_we = r.base_we && r.base_addr;
        if (rd_we != writes_rd) add(offsetof(Retirement, rd_we), writes_rd, rd_we);
        const bool overwritten = insn.rs1 == insn.rd || ((has & WRITES_RD2) && insn.rs1 == insn.rd + 1);
        if (base_we != writes_base && !(writes_rd && overwritten)) {
            add(offsetof(Retirement, base_we), writes_base, base_we);
        }
        if (base_we) {
            expect(&Retirement::base_addr, insn.rs1);
            gpr_[insn.rs1] = r.base_wdata;
        }
        if (rd_we) {
            expect(&Retirement::rd_addr, insn.rd);
            gpr_[insn.rd] = r.rd_wdata;
        }
        const bool writes_rd2 = (has & WRITES_RD2) && insn.rd;
        if (r.rd2_we != writes_rd2) add(offsetof(Retirement, rd2_we), writes_rd2, r.rd2_we);
        if (writes_rd2) gpr_[insn.rd + 1] = r.rd2_wdata;
        gpr_[0] = 0;
        expect(&Retirement::nn_we, (has & WRITES_NN) != 0);
        if (has & WRITES_NN) {
            expect(&Retirement::nn_addr, insn.reloaded);
            expect(&Retirement::nn_wdata, r.mem_rdata);
            nnrf_[insn.reloaded] = r.mem_rdata;
        }
    }

    // The next address; CSRs and loops change. A loop that ends here counts before the instruction writes.
    uint32_t advance(bool taken, uint32_t target) {
        const Retirement& r = *record_;
        const CheckInsn& insn = *insn_;
        if (insn.action == TRANSFER && taken) return target;
        if (insn.action == RETURN) return csrs_.leave_trap();
        const uint32_t operand = insn.is_constant ? insn.constant : r.rs1_rdata;
        CsrState& csr = csrs_[insn.number];
        const bool is_csr = insn.action >= CSR_READ && insn.action <= CSR_CLEAR;
        const uint32_t entry = insn.number - CSR_NN0;
        const bool is_entry = is_csr && entry < NNRF_WORDS;
        if (is_entry) csr.value = nnrf_[entry];
        const uint32_t old = csr.value;
        const uint32_t next = csrs_.follow_loops(r.pc_rdata, r.pc_rdata + insn.length);
        if (is_csr && insn.rd && !(csr.flags & FREE)) {
            expect(&Retirement::rd_wdata, old);
        }
        csrs_.change(insn, operand, r.pc_rdata);
        if (is_entry) nnrf_[entry] = csr.value;
        return next;
    }

    // An interrupt that stays pending and enabled must be taken soon.
    void watch() {
        const bool ready = csrs_[CSR_MSTATUS].value & MSTATUS_MIE && irq_lines_[position_] & csrs_[CSR_MIE].value;
        // single steps may leave interrupts off
        const bool halted = record_->halt >> DEBUG & 1;
        waiting_ = ready && !halted ? waiting_ + 1 : 0;
        if (__builtin_expect(waiting_ > PATIENCE, 0)) add(offsetof(Retirement, intr), 1, 0);
    }

    // Takes the interrupt before the instruction; returns the cause to be reported.
    uint32_t interrupt() {
        const Retirement& r = *record_;
        const uint32_t mtvec = csrs_[CSR_MTVEC].value, enabled = csrs_[CSR_MIE].value;
        uint32_t line = r.cause & CAUSE_CODE;
        if (r.trap) {
            // the trap's cause is reported instead; with one handler for all there is no trace of the line
            const uint32_t lowest = enabled ? static_cast<uint32_t>(__builtin_ctz(enabled)) : 0;
            line = mtvec & MTVEC_VECTORED ? (r.pc_rdata - (mtvec & MTVEC_BASE)) / VECTOR_BYTES & CAUSE_CODE : lowest;
        }
        expect(&Retirement::intr, csrs_[CSR_MSTATUS].value & MSTATUS_MIE && enabled >> line & 1);
        pc_ = csrs_.enter_trap(MCAUSE_INTERRUPT | line, pc_);
        if (!irq_lines_ || r.trap) return CAUSE_INTERRUPT | line;
        const uint32_t pending = irq_lines_[position_] & enabled;
        expect(&Retirement::intr, pending != 0);
        return CAUSE_INTERRUPT | (pending ? Csrs::most_urgent(pending) : line);
    }

    // Bits of the word at `address` that the shadow memory knows.
    uint32_t known_bits(uint32_t address) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t word = (address + i) & ~3u;
            const bool hosts = word == (settings_.tohost & ~3u) || word == (settings_.fromhost & ~3u);
            if (!hosts && shadow_.locate(word)) bits |= 0xFFu << 8 * i;
        }
        return bits;
    }

    void expect(Field field, uint32_t expected) {
        const uint32_t got = record_->*field;
        if (__builtin_expect(expected == got, 1)) return;
        const auto* base = reinterpret_cast<const char*>(record_);
        add(static_cast<size_t>(reinterpret_cast<const char*>(&(record_->*field)) - base), expected, got);
    }

    void add(size_t field, uint32_t expected, uint32_t got) { log_.add(number_, position_, field, expected, got); }

    const uint32_t number_;
    const CheckSettings& settings_;
    const Text& text_;
    Memory& shadow_;
    Order& order_;
    ErrorLog& log_;
    Csrs csrs_;
    std::array<Line, LINES> lines_{};       // instructions found by address
    std::vector<const CheckInsn*> chosen_;  // of each retirement of the block
    uint32_t gpr_[32] = {};
    uint32_t nnrf_[NNRF_WORDS] = {};
    ValueTable table_;
    uint32_t pc_;
    uint64_t order_number_ = 0;
    bool started_ = false;
    const Retirement* records_ = nullptr;
    const uint32_t* irq_lines_ = nullptr;
    const uint8_t* taken_ = nullptr;
    const uint32_t* targets_ = nullptr;
    const Retirement* record_ = nullptr;
    const CheckInsn* insn_ = nullptr;
    uint32_t count_ = 0, position_ = 0, waiting_ = 0;
};

}  // namespace harness
