// Sequential state: every source of a retired instruction must hold what earlier retirements left there.
#pragma once
#include <cstdint>

#include "memory.hpp"
#include "records.hpp"

namespace cosim {

class ErrorLog {
  public:
    static constexpr uint32_t KEPT = 64;

    void add(Kind kind, uint64_t position, uint64_t cycle, uint32_t expected, uint32_t got) {
        if (total < KEPT) first[total] = {position, cycle, static_cast<uint32_t>(kind), expected, got, 0};
        ++total;
        if (kind >= Kind::JUMP_MISSING) fatal = true;
    }

    uint64_t total = 0;
    bool fatal = false;
    Error first[KEPT];
};

class Checker {
  public:
    Checker(Memory& shadow, ErrorLog& log) : shadow_(shadow), log_(log) {}

    void select(const Records& records) {
        records_ = records;
        written = 0;
    }

    void retire(const StaticInsn& insn, const Retirement& r, uint64_t position, uint64_t cycle) {
        position_ = position;
        cycle_ = cycle;
        const uint32_t has = insn.properties;
        expect(Kind::WORD, insn.word, r.insn);
        expect(Kind::PC, insn.pc, r.pc);
        if (has & READS_RS1) expect(Kind::RS1, gpr_[insn.rs1], r.rs1);
        if (has & READS_RS2) expect(Kind::RS2, gpr_[insn.rs2], r.rs2);
        if (has & READS_RD) expect(Kind::RD_OLD, gpr_[insn.rd], r.rd_old);
        if (has & READS_ACT) expect(Kind::ACT, nnrf_[insn.act], r.act);
        if (has & READS_WGT) expect(Kind::WGT, nnrf_[insn.wgt], r.wgt);

        const uint32_t lanes = (1u << insn.access) - 1;
        const uint32_t bits = insn.access == 4 ? ~0u : (1u << 8 * insn.access) - 1;
        uint32_t loaded = 0;
        expect(Kind::RMASK, has & LOADS ? lanes : 0, r.rmask);
        expect(Kind::WMASK, has & STORES ? lanes : 0, r.wmask);
        if (has & LOADS) {
            loaded = shadow_.load(r.address);
            expect(Kind::LOADED, loaded & bits, r.rdata);
        } else if (has & STORES) {
            shadow_.store(r.address, r.wdata, insn.access);
        }

        // Results that x0 drops are not reported; with rd = rs1 the incremented base may be.
        const bool rd_we = r.rd_we && r.rd_addr != 0;
        const bool base_we = r.base_we && r.base_addr != 0;
        const bool expect_rd = (has & WRITES_RD) && insn.rd != 0;
        const bool base_lost = expect_rd && insn.rd == insn.rs1;
        expect(Kind::RD_WE, expect_rd, rd_we);
        if (!base_lost) expect(Kind::BASE_WE, (has & WRITES_BASE) && insn.rs1 != 0, base_we);
        if (base_we) {
            expect(Kind::BASE_ADDR, insn.rs1, r.base_addr);
            gpr_[insn.rs1] = r.base;
        }
        if (rd_we) {
            expect(Kind::RD_ADDR, insn.rd, r.rd_addr);
            gpr_[insn.rd] = r.rd;
        }
        gpr_[0] = 0;
        expect(Kind::NN_WE, (has & WRITES_NN) != 0, r.nn_we);
        if (has & WRITES_NN) {
            expect(Kind::NN_ADDR, insn.reloaded, r.nn_addr);
            expect(Kind::NN_WDATA, loaded, r.nn);
            nnrf_[insn.reloaded] = loaded;
        }

        const uint32_t i = written++;
        records_.rs1[i] = r.rs1;
        records_.rs2[i] = r.rs2;
        records_.rd_old[i] = r.rd_old;
        records_.act[i] = r.act;
        records_.wgt[i] = r.wgt;
        records_.loaded[i] = loaded;
        records_.rd[i] = r.rd;
        records_.base[i] = r.base;
        records_.address[i] = r.address;
        records_.store[i] = r.wdata;
    }

    uint32_t written = 0;

  private:
    void expect(Kind kind, uint32_t expected, uint32_t got) {
        if (__builtin_expect(expected != got, 0)) log_.add(kind, position_, cycle_, expected, got);
    }

    Memory& shadow_;
    ErrorLog& log_;
    Records records_{};
    uint32_t gpr_[32] = {};
    uint32_t nnrf_[6] = {};
    uint64_t position_ = 0, cycle_ = 0;
};

}  // namespace cosim
