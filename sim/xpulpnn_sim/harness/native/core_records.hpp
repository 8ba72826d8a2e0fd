// Data of the checker of a core that is shared with Python (harness/core_abi.py mirrors every struct, field by field).
#pragma once
#include <cstdint>

#include "records.hpp"

namespace cosim {

// What an instruction does beside the properties of StaticInsn.
enum CoreAction : uint32_t {
    NO_ACTION,
    TRANSFER,  // branch or jump; Python says whether it is taken and where to
    RAISE,     // always traps, with the cause `number`
    RETURN,    // mret
    CSR_READ,  // of the CSR `number`; likewise the others
    CSR_WRITE,
    CSR_SET,
    CSR_CLEAR,
    SET_LOOP_START,  // of the hardware loop `number`; likewise the others
    SET_LOOP_END,
    SET_LOOP_COUNT,
    SET_LOOP,
};

// An instruction by its word in memory.
struct CoreInsn {
    StaticInsn insn;  // of the expanded word; pc unused
    uint32_t raw;
    uint32_t action, number;
    uint32_t is_constant;  // the operand of the action is `constant`, not rs1
    uint32_t constant;
    uint32_t offset;  // from pc to the start or end of a loop
    uint32_t group;   // of instructions whose results are compared together; NO_GROUP: no results to compare
};

constexpr uint32_t NO_GROUP = ~0u;

enum CoreCsrFlag : uint32_t {
    PRESENT = 1u << 0,
    READ_ONLY = 1u << 1,  // writing traps
    FREE = 1u << 2,       // any value may be read
};

struct CoreCsr {
    uint32_t address, flags;
    uint32_t value;     // after reset
    uint32_t writable;  // mask
};

// A field of a retirement that differs.
struct CoreError {
    uint32_t position;  // in the block
    uint32_t field;     // its offset in CoreRetirement
    uint32_t expected, got;
};

// Where the values of the retirements go, those of a group side by side.
struct CoreValues {
    Records values;
    uint32_t *word, *pc;
    uint32_t* position;  // in the block
};

}  // namespace cosim
