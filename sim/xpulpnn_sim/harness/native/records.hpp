// Data shared with Python (harness/abi.py mirrors every struct of this file, field by field).
#pragma once
#include <cstdint>

namespace cosim {

// Properties of a static instruction, from its row of the ISA table.
enum Property : uint32_t {
    READS_RS1 = 1u << 0,
    READS_RS2 = 1u << 1,
    READS_RD = 1u << 2,
    WRITES_RD = 1u << 3,
    WRITES_BASE = 1u << 4,
    LOADS = 1u << 5,
    STORES = 1u << 6,
    BRANCHES = 1u << 7,
    JUMPS = 1u << 8,
    LOOP_END = 1u << 9,
    READS_ACT = 1u << 10,
    READS_WGT = 1u << 11,
    WRITES_NN = 1u << 12,
    MULTICYCLE = 1u << 13,
};

// One instruction of the static program text.
struct StaticInsn {
    uint32_t word;
    uint32_t pc;
    uint32_t properties;
    uint8_t length;  // bytes in memory: 2 or 4
    uint8_t rs1, rs2, rd;
    uint8_t access;  // bytes loaded or stored
    uint8_t act, wgt, reloaded;  // NN-RF entries
};

// A word of memory that changes just before the stream position `position` executes.
struct Poke {
    uint64_t position;
    uint32_t address;
    uint32_t word;
};

enum class Kind : uint32_t {
    WORD, PC, RS1, RS2, RD_OLD, ACT, WGT,
    RMASK, WMASK, LOADED,
    RD_WE, RD_ADDR, BASE_WE, BASE_ADDR, NN_WE, NN_ADDR, NN_WDATA,
    EXTRA_RETIREMENT,
    FAULT,
    TRAP,
    // From here on the stream cannot go on.
    JUMP_MISSING, JUMP_UNEXPECTED, JUMP_TARGET,
    BRANCH_UNEXPECTED, BRANCH_TARGET, DISCONTINUITY, STUCK,
    NONE,
};

struct Error {
    uint64_t position;
    uint64_t cycle;
    uint32_t kind;
    uint32_t expected;
    uint32_t got;
    uint32_t unused;
};

// Why no instruction was accepted in a cycle.
enum Stall { JUMP, BRANCH, LOAD_USE, MISALIGNED, GRANT, RESPONSE, MULTICYCLE_UNIT, OTHER, STALLS };

struct Stats {
    uint64_t cycles;
    uint64_t accepted;
    uint64_t retired;
    uint64_t mismatches;
    uint64_t faults;
    uint64_t stalls[STALLS];
};

struct Settings {
    uint32_t grant_stall;       // a grant is withheld when a 32-bit random number is below this
    uint32_t response_latency;  // a response takes 1..response_latency cycles
    uint32_t seed;
    uint32_t sparse;  // 1: addresses outside every window are memory of their own, first read as 0
    uint32_t dump_instructions;  // 1: `dump_from`/`dump_to` count accepted instructions, 0: clock cycles
    uint32_t watchdog;  // cycles without progress before the run is given up
    uint64_t dump_from;
    uint64_t dump_to;
};

// Destination of the retirement records of one block: one array per field.
struct Records {
    uint32_t *rs1, *rs2, *rd_old;
    uint32_t *act, *wgt;
    uint32_t* loaded;  // word of the shadow memory at the access address
    uint32_t *rd, *base, *address, *store;
};

// What the retirement port of the back end carries, in port order.
struct Retirement {
    uint32_t insn, pc, rs1, rs2, rd_old;
    uint32_t rd_we, rd_addr, rd;
    uint32_t base_we, base_addr, base;
    uint32_t address, rmask, wmask, rdata, wdata;
    uint32_t act, wgt, nn_we, nn_addr, nn;
};

}  // namespace cosim
