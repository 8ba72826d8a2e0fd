// Sequential state of a core, followed by its retirements: every source, load, next address and CSR must be what the
// earlier ones left. Results are taken over; Python compares them with the reference models.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core_driver.hpp"
#include "core_records.hpp"
#include "memory.hpp"

namespace cosim {

class CoreChecker {
  public:
    static constexpr uint32_t KEPT = 64;

    // The host changes the words at `tohost` and `fromhost` (tohost again if there is none).
    CoreChecker(uint32_t entry, uint32_t tohost, uint32_t fromhost)
        : shadow(false), pc_(entry & ~1u), tohost_(tohost & ~3u), fromhost_(fromhost & ~3u) {}

    Memory shadow;

    void add_csr(const CoreCsr& csr) { csrs_[csr.address & CSR_MASK] = csr; }

    void add_insn(const CoreInsn& insn) {
        by_word_[insn.raw] = static_cast<uint32_t>(insns_.size());
        insns_.push_back(insn);
    }

    // Looks the instructions of a block up; returns the number of words not known yet, which go to `unknown`.
    uint32_t find(const CoreRetirement* records, uint32_t count, uint32_t* unknown) {
        chosen_.resize(count);
        uint32_t missing = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t raw = records[i].insn;
            Line& line = lines_[records[i].pc_rdata >> 1 & (LINES - 1)];
            if (__builtin_expect(!line.used || line.raw != raw, 0)) {
                const auto found = by_word_.find(raw);
                if (found == by_word_.end()) {
                    unknown[missing++] = raw;
                    continue;
                }
                line = {raw, found->second, true};
            }
            chosen_[i] = line.number;
        }
        return missing;
    }

    // Distributes the values of the block looked up last to `groups` groups; group g starts at `starts[g]`.
    void distribute(const CoreRetirement* records, uint32_t count, uint32_t groups, uint32_t* starts,
                    const CoreValues& to) const {
        std::vector<uint32_t> next(groups + 1);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t group = insns_[chosen_[i]].group;
            if (group != NO_GROUP && !records[i].trap) ++next[group + 1];
        }
        for (uint32_t group = 0; group < groups; ++group) next[group + 1] += next[group];
        for (uint32_t group = 0; group <= groups; ++group) starts[group] = next[group];
        for (uint32_t i = 0; i < count; ++i) {
            const CoreRetirement& r = records[i];
            const CoreInsn& insn = insns_[chosen_[i]];
            if (insn.group == NO_GROUP || r.trap) continue;
            const uint32_t at = next[insn.group]++;
            to.word[at] = insn.insn.word;
            to.pc[at] = r.pc_rdata;
            to.position[at] = i;
            to.values.rs1[at] = r.rs1_rdata;
            to.values.rs2[at] = r.rs2_rdata;
            to.values.rd_old[at] = r.rd_rdata;
            to.values.act[at] = r.nn_act_rdata;
            to.values.wgt[at] = r.nn_wgt_rdata;
            to.values.loaded[at] = r.mem_rdata;
            to.values.rd[at] = r.rd_wdata;
            to.values.base[at] = r.base_wdata;
            to.values.address[at] = r.mem_addr;
            to.values.store[at] = r.mem_wdata;
        }
    }

    // Follows the block looked up last. `lines` are its interrupt lines, nullptr if unknown; `taken` and `targets` say
    // where its transfers of control go. Returns the number of differences; the first KEPT of them go to `errors`.
    uint32_t check(const CoreRetirement* records, uint32_t count, const uint32_t* lines, const uint8_t* taken,
                   const uint32_t* targets, CoreError* errors) {
        irq_lines_ = lines;
        errors_ = errors;
        total_ = 0;
        for (position_ = 0; position_ < count; ++position_) {
            record_ = &records[position_];
            insn_ = &insns_[chosen_[position_]];
            retire(taken[position_], targets[position_]);
            if (lines) watch();
        }
        return total_;
    }

  private:
    using Field = uint32_t CoreRetirement::*;
    static constexpr uint32_t CSR_MASK = 0xFFF, LINES = 1u << 12;
    // addresses of isa/csr.py
    static constexpr uint32_t MSTATUS = 0x300, MIE = 0x304, MTVEC = 0x305, MEPC = 0x341, MCAUSE = 0x342;
    static constexpr uint32_t LOOPS = 0x7C0, LOOP_STRIDE = 4, START = 0, END = 1, COUNT = 2;
    static constexpr uint32_t GLOBAL_ENABLE = 1u << 3, PREVIOUS_ENABLE = 1u << 7;
    static constexpr uint32_t TABLE = 0xFFFFFF00, VECTORED = 1, VECTOR_BYTES = 4;
    static constexpr uint32_t ILLEGAL_INSTRUCTION = 2, CODE = 31, REPORTED_INTERRUPT = 1u << 5, INTERRUPT = 1u << 31;
    static constexpr uint32_t CUSTOM = 16, EXTERNAL = 11, TIMER = 7, SOFTWARE = 3;  // lines
    static constexpr uint32_t PATIENCE = 8;  // retirements; those under way when an interrupt comes are fewer
    static constexpr uint32_t SETUP_BYTES = 4;  // of lp.setup, whose body starts right behind

    struct Line {
        uint32_t raw, number;
        bool used;
    };

    void retire(bool taken, uint32_t target) {
        const CoreRetirement& r = *record_;
        if (__builtin_expect(started_ && r.order != order_ + 1, 0)) {
            add(offsetof(CoreRetirement, order), static_cast<uint32_t>(order_ + 1), static_cast<uint32_t>(r.order));
        }
        started_ = true;
        order_ = r.order;
        const uint32_t line = r.intr ? interrupt() : 0;
        expect(&CoreRetirement::pc_rdata, pc_);
        fetch();
        const uint32_t raised = exception();
        expect(&CoreRetirement::trap, raised != 0);
        expect(&CoreRetirement::cause, raised ? raised : line);
        if (r.trap) {
            for (Field effect : {&CoreRetirement::rd_we, &CoreRetirement::base_we, &CoreRetirement::nn_we,
                                 &CoreRetirement::mem_rmask, &CoreRetirement::mem_wmask}) {
                expect(effect, 0);
            }
            pc_ = enter_trap(r.cause & CODE, r.pc_rdata);
        } else {
            sources();
            results(access());
            pc_ = advance(taken, target);
        }
        expect(&CoreRetirement::pc_wdata, pc_);
        pc_ = r.pc_wdata;
    }

    // The word in memory. Nothing is known about one outside or one that the host changes.
    void fetch() {
        const CoreRetirement& r = *record_;
        uint32_t word = shadow.load(r.pc_rdata);
        if ((word & 3) != 3) word &= 0xFFFF;
        if (__builtin_expect(word != r.insn, 0) && ((word ^ r.insn) & known_bits(r.pc_rdata))) {
            add(offsetof(CoreRetirement, insn), word, r.insn);
        }
    }

    // The cause if the instruction is to trap, or 0.
    uint32_t exception() const {
        const uint32_t action = insn_->action;
        if (action == RAISE) return insn_->number;
        if (action >= CSR_READ && action <= CSR_CLEAR) {
            const uint32_t flags = csrs_[insn_->number & CSR_MASK].flags;
            if (!(flags & PRESENT) || (flags & READ_ONLY && action != CSR_READ)) return ILLEGAL_INSTRUCTION;
        }
        return 0;
    }

    void sources() {
        const StaticInsn& insn = insn_->insn;
        const uint32_t has = insn.properties;
        if (has & READS_RS1) {
            expect(&CoreRetirement::rs1_rdata, gpr_[insn.rs1]);
            expect(&CoreRetirement::rs1_addr, insn.rs1);
        }
        if (has & READS_RS2) {
            expect(&CoreRetirement::rs2_rdata, gpr_[insn.rs2]);
            expect(&CoreRetirement::rs2_addr, insn.rs2);
        }
        if (has & READS_RD) expect(&CoreRetirement::rd_rdata, gpr_[insn.rd]);
        if (has & READS_ACT) expect(&CoreRetirement::nn_act_rdata, nnrf_[insn.act]);
        if (has & READS_WGT) expect(&CoreRetirement::nn_wgt_rdata, nnrf_[insn.wgt]);
    }

    // The memory access; returns the loaded word.
    uint32_t access() {
        const CoreRetirement& r = *record_;
        const StaticInsn& insn = insn_->insn;
        const uint32_t lanes = (1u << insn.access) - 1;
        const uint32_t bits = insn.access == 4 ? ~0u : (1u << 8 * insn.access) - 1;
        expect(&CoreRetirement::mem_rmask, insn.properties & LOADS ? lanes : 0);
        expect(&CoreRetirement::mem_wmask, insn.properties & STORES ? lanes : 0);
        if (insn.properties & LOADS) {
            const uint32_t word = shadow.load(r.mem_addr) & bits;
            if (__builtin_expect(word != r.mem_rdata, 0) &&
                ((word ^ r.mem_rdata) & (known_bits(r.mem_addr) | ~bits))) {
                add(offsetof(CoreRetirement, mem_rdata), word, r.mem_rdata);
            }
        } else if (insn.properties & STORES) {
            shadow.store(r.mem_addr, r.mem_wdata, insn.access);
        }
        return r.mem_rdata;
    }

    // Writes of registers. Those of x0 are not reported; with rd = rs1 the incremented base may be.
    void results(uint32_t loaded) {
        const CoreRetirement& r = *record_;
        const StaticInsn& insn = insn_->insn;
        const uint32_t has = insn.properties;
        const bool writes_rd = (has & WRITES_RD) && insn.rd, writes_base = (has & WRITES_BASE) && insn.rs1;
        const bool rd_we = r.rd_we && r.rd_addr, base_we = r.base_we && r.base_addr;
        if (rd_we != writes_rd) add(offsetof(CoreRetirement, rd_we), writes_rd, rd_we);
        if (base_we != writes_base && !(writes_rd && insn.rd == insn.rs1)) {
            add(offsetof(CoreRetirement, base_we), writes_base, base_we);
        }
        if (base_we) {
            expect(&CoreRetirement::base_addr, insn.rs1);
            gpr_[insn.rs1] = r.base_wdata;
        }
        if (rd_we) {
            expect(&CoreRetirement::rd_addr, insn.rd);
            gpr_[insn.rd] = r.rd_wdata;
        }
        gpr_[0] = 0;
        expect(&CoreRetirement::nn_we, (has & WRITES_NN) != 0);
        if (has & WRITES_NN) {
            expect(&CoreRetirement::nn_addr, insn.reloaded);
            expect(&CoreRetirement::nn_wdata, loaded);
            nnrf_[insn.reloaded] = loaded;
        }
    }

    // The next address; CSRs and loops change. A loop that ends here counts before the instruction writes.
    uint32_t advance(bool taken, uint32_t target) {
        const CoreRetirement& r = *record_;
        const CoreInsn& insn = *insn_;
        if (insn.action == TRANSFER && taken) return target;
        if (insn.action == RETURN) return leave_trap();
        const uint32_t operand = insn.is_constant ? insn.constant : r.rs1_rdata;
        CoreCsr& csr = csrs_[insn.number & CSR_MASK];
        const uint32_t old = csr.value;
        const uint32_t next = follow_loops(r.pc_rdata, r.pc_rdata + insn.insn.length);
        const uint32_t loop = LOOPS + LOOP_STRIDE * insn.number;
        if (insn.action >= CSR_READ && insn.action <= CSR_CLEAR && insn.insn.rd && !(csr.flags & FREE)) {
            expect(&CoreRetirement::rd_wdata, old);
        }
        switch (insn.action) {
            case CSR_WRITE: write(csr, operand); break;
            case CSR_SET: write(csr, old | operand); break;
            case CSR_CLEAR: write(csr, old & ~operand); break;
            case SET_LOOP_START: write(csrs_[loop + START], r.pc_rdata + insn.offset); break;
            case SET_LOOP:
                write(csrs_[loop + START], r.pc_rdata + SETUP_BYTES);
                write(csrs_[loop + COUNT], operand);
                [[fallthrough]];
            case SET_LOOP_END: write(csrs_[loop + END], r.pc_rdata + insn.offset); break;
            case SET_LOOP_COUNT: write(csrs_[loop + COUNT], operand); break;
            default: break;
        }
        return next;
    }

    static void write(CoreCsr& csr, uint32_t value) {
        csr.value = (csr.value & ~csr.writable) | (value & csr.writable);
    }

    uint32_t follow_loops(uint32_t pc, uint32_t next) {
        for (uint32_t loop : {LOOPS, LOOPS + LOOP_STRIDE}) {
            uint32_t& count = csrs_[loop + COUNT].value;
            if (csrs_[loop + END].value == pc && count > 1) {
                --count;
                return csrs_[loop + START].value;
            }
        }
        return next;
    }

    // An interrupt that stays pending and enabled must be taken soon.
    void watch() {
        const bool ready = csrs_[MSTATUS].value & GLOBAL_ENABLE && irq_lines_[position_] & csrs_[MIE].value;
        waiting_ = ready ? waiting_ + 1 : 0;
        if (__builtin_expect(waiting_ > PATIENCE, 0)) add(offsetof(CoreRetirement, intr), 1, 0);
    }

    // Takes the interrupt before the instruction; returns the cause to be reported.
    uint32_t interrupt() {
        const CoreRetirement& r = *record_;
        const uint32_t mtvec = csrs_[MTVEC].value, enabled = csrs_[MIE].value;
        uint32_t line = r.cause & CODE;
        if (r.trap) {
            // the trap's cause is reported instead; with one handler for all there is no trace of the line
            const uint32_t lowest = enabled ? static_cast<uint32_t>(__builtin_ctz(enabled)) : 0;
            line = mtvec & VECTORED ? (r.pc_rdata - (mtvec & TABLE)) / VECTOR_BYTES & CODE : lowest;
        }
        expect(&CoreRetirement::intr, csrs_[MSTATUS].value & GLOBAL_ENABLE && enabled >> line & 1);
        pc_ = enter_trap(INTERRUPT | line, pc_);
        if (!irq_lines_ || r.trap) return REPORTED_INTERRUPT | line;
        const uint32_t pending = irq_lines_[position_] & enabled;
        expect(&CoreRetirement::intr, pending != 0);
        return REPORTED_INTERRUPT | (pending ? most_urgent(pending) : line);
    }

    static uint32_t most_urgent(uint32_t pending) {
        if (pending >> CUSTOM) return CODE - static_cast<uint32_t>(__builtin_clz(pending));
        return pending >> EXTERNAL & 1 ? EXTERNAL : pending >> SOFTWARE & 1 ? SOFTWARE : TIMER;
    }

    // Returns the address of the handler.
    uint32_t enter_trap(uint32_t cause, uint32_t pc) {
        uint32_t& status = csrs_[MSTATUS].value;
        const bool enabled = status & GLOBAL_ENABLE;
        status = (status & ~(GLOBAL_ENABLE | PREVIOUS_ENABLE)) | (enabled ? PREVIOUS_ENABLE : 0);
        csrs_[MEPC].value = pc;
        csrs_[MCAUSE].value = cause;
        const uint32_t mtvec = csrs_[MTVEC].value;
        return (mtvec & TABLE) + (cause & INTERRUPT && mtvec & VECTORED ? VECTOR_BYTES * (cause & CODE) : 0);
    }

    // Returns the address to continue at.
    uint32_t leave_trap() {
        uint32_t& status = csrs_[MSTATUS].value;
        const bool enabled = status & PREVIOUS_ENABLE;
        status = (status & ~GLOBAL_ENABLE) | PREVIOUS_ENABLE | (enabled ? GLOBAL_ENABLE : 0);
        return csrs_[MEPC].value;
    }

    // Bits of the word at `address` that the shadow memory knows.
    uint32_t known_bits(uint32_t address) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t word = (address + i) & ~3u;
            if (word != tohost_ && word != fromhost_ && shadow.locate(word)) bits |= 0xFFu << 8 * i;
        }
        return bits;
    }

    void expect(Field field, uint32_t expected) {
        const uint32_t got = record_->*field;
        if (__builtin_expect(expected == got, 1)) return;
        const auto* base = reinterpret_cast<const char*>(record_);
        add(static_cast<size_t>(reinterpret_cast<const char*>(&(record_->*field)) - base), expected, got);
    }

    __attribute__((noinline)) void add(size_t field, uint32_t expected, uint32_t got) {
        if (total_ < KEPT) errors_[total_] = {position_, static_cast<uint32_t>(field), expected, got};
        ++total_;
    }

    std::array<CoreCsr, CSR_MASK + 1> csrs_{};
    std::vector<CoreInsn> insns_;
    std::unordered_map<uint32_t, uint32_t> by_word_;  // numbers in insns_
    std::array<Line, LINES> lines_{};                 // the same, found by address
    std::vector<uint32_t> chosen_;                    // instruction of each retirement of the block
    uint32_t gpr_[32] = {};
    uint32_t nnrf_[6] = {};
    uint32_t pc_, tohost_, fromhost_;
    uint64_t order_ = 0;
    bool started_ = false;
    const CoreRetirement* record_ = nullptr;
    const CoreInsn* insn_ = nullptr;
    CoreError* errors_ = nullptr;
    const uint32_t* irq_lines_ = nullptr;
    uint32_t position_ = 0, total_ = 0, waiting_ = 0;
};

}  // namespace cosim
