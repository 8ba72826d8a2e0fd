// Operands and results of a block by group of instructions, for the reference models.
#pragma once
#include <cstdint>
#include <vector>

#include "schema.hpp"

namespace harness {

class ValueTable {
  public:
    // Distributes the values of a block, the instructions `chosen`, to `groups` groups, one array per ValueField; group g
    // starts at `starts[g]`.
    // The parameters of a requantisation and the second activation of a pair are those that the records have loaded,
    // since none of their fields shows them.
    void fill(const Retirement* records, const std::vector<const CheckInsn*>& chosen, uint32_t groups, uint32_t* starts,
              uint32_t* values) {
        const uint32_t count = static_cast<uint32_t>(chosen.size());
        std::vector<uint32_t> next(groups + 1);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t group = chosen[i]->group;
            if (group != NO_GROUP && !records[i].trap) ++next[group + 1];
        }
        for (uint32_t group = 0; group < groups; ++group) next[group + 1] += next[group];
        for (uint32_t group = 0; group <= groups; ++group) starts[group] = next[group];
        for (uint32_t i = 0; i < count; ++i) {
            const Retirement& r = records[i];
            const CheckInsn& insn = *chosen[i];
            const uint32_t second = loaded_[insn.act | 1];
            if (insn.properties & WRITES_NN && !r.trap) loaded_[insn.reloaded] = r.mem_rdata;
            if (__builtin_expect(insn.action >= CSR_WRITE && insn.action <= CSR_CLEAR && !r.trap, 0)) change(insn, r);
            if (insn.group == NO_GROUP || r.trap) continue;
            const bool requantises = insn.properties & READS_PARAMETERS;
            uint32_t* to = values + next[insn.group]++;
            to[count * VALUE_WORD] = insn.word;
            to[count * VALUE_PC] = r.pc_rdata;
            to[count * VALUE_POSITION] = i;
            to[count * VALUE_RS1] = r.rs1_rdata;
            to[count * VALUE_RS2] = r.rs2_rdata;
            to[count * VALUE_RD_OLD] = r.rd_rdata;
            to[count * VALUE_ACT] = requantises ? loaded_[FIRST_PARAMETER] : r.nn_act_rdata;
            to[count * VALUE_WGT] = requantises ? loaded_[FIRST_PARAMETER + 1] : r.nn_wgt_rdata;
            to[count * VALUE_ACT2] = second;
            to[count * VALUE_LOADED] = r.mem_rdata;
            to[count * VALUE_RD] = r.rd_wdata;
            to[count * VALUE_RD2] = r.rd2_wdata;
            to[count * VALUE_BASE] = r.base_wdata;
            to[count * VALUE_ADDRESS] = r.mem_addr;
            to[count * VALUE_STORE] = r.mem_wdata;
        }
    }

  private:
    // The write of a CSR that is a word of the NN-RF.
    void change(const CheckInsn& insn, const Retirement& r) {
        const uint32_t entry = insn.number - CSR_NN0, operand = insn.is_constant ? insn.constant : r.rs1_rdata;
        if (entry >= NNRF_WORDS) return;
        uint32_t& word = loaded_[entry];
        word = insn.action == CSR_WRITE ? operand : insn.action == CSR_SET ? word | operand : word & ~operand;
    }

    uint32_t loaded_[NNRF_WORDS] = {};  // entries of the NN-RF by the records alone
};

}  // namespace harness
