// Control and status registers of a hart as they change with traps, returns and hardware loops.
#pragma once
#include <array>
#include <cstdint>

#include "schema.hpp"

namespace harness {

class Csrs {
  public:
    CsrState& operator[](uint32_t address) { return states_[address & MASK]; }
    const CsrState& operator[](uint32_t address) const { return states_[address & MASK]; }

    // The write of an instruction at `pc`, if it is one of a CSR or the set-up of a loop.
    void change(const CheckInsn& insn, uint32_t operand, uint32_t pc) {
        CsrState& csr = (*this)[insn.number];
        const uint32_t loop = CSR_LPSTART0 + LOOP_CSRS * insn.number;
        switch (insn.action) {
            case CSR_WRITE: write(csr, operand); break;
            case CSR_SET: write(csr, csr.value | operand); break;
            case CSR_CLEAR: write(csr, csr.value & ~operand); break;
            case SET_LOOP_START: write((*this)[loop + START], pc + insn.offset); break;
            case SET_LOOP:
                write((*this)[loop + START], pc + insn.length);
                write((*this)[loop + COUNT], operand);
                [[fallthrough]];
            case SET_LOOP_END: write((*this)[loop + END], pc + insn.offset); break;
            case SET_LOOP_COUNT: write((*this)[loop + COUNT], operand); break;
            default: break;
        }
    }

    // Counts an iteration of a loop that ends at `pc`; returns the address of what follows, otherwise `next`.
    uint32_t follow_loops(uint32_t pc, uint32_t next) {
        for (uint32_t loop : {CSR_LPSTART0, CSR_LPSTART0 + LOOP_CSRS}) {
            uint32_t& count = (*this)[loop + COUNT].value;
            if ((*this)[loop + END].value == pc && count > 1) {
                --count;
                return (*this)[loop + START].value;
            }
        }
        return next;
    }

    uint32_t enter_trap(uint32_t cause, uint32_t pc) {
        uint32_t& status = (*this)[CSR_MSTATUS].value;
        const bool enabled = status & MSTATUS_MIE;
        status = (status & ~(MSTATUS_MIE | MSTATUS_MPIE)) | (enabled ? MSTATUS_MPIE : 0);
        (*this)[CSR_MEPC].value = pc;
        (*this)[CSR_MCAUSE].value = cause;
        const uint32_t mtvec = (*this)[CSR_MTVEC].value;
        const bool vectored = cause & MCAUSE_INTERRUPT && mtvec & MTVEC_VECTORED;
        return (mtvec & MTVEC_BASE) + (vectored ? VECTOR_BYTES * (cause & CAUSE_CODE) : 0);
    }

    uint32_t leave_trap() {
        uint32_t& status = (*this)[CSR_MSTATUS].value;
        const bool enabled = status & MSTATUS_MPIE;
        status = (status & ~MSTATUS_MIE) | MSTATUS_MPIE | (enabled ? MSTATUS_MIE : 0);
        return (*this)[CSR_MEPC].value;
    }

    static uint32_t most_urgent(uint32_t pending) {
        for (uint32_t line : IRQ_PRIORITY) {
            if (pending >> line & 1) return line;
        }
        return 0;
    }

  private:
    static constexpr uint32_t START = 0, END = 1, COUNT = 2;  // registers of a hardware loop
    static constexpr uint32_t MASK = 0xFFF;

    static void write(CsrState& csr, uint32_t value) {
        csr.value = (csr.value & ~csr.writable) | (value & csr.writable);
    }

    std::array<CsrState, MASK + 1> states_{};
};

}  // namespace harness
