// Interpreter of a mapped netlist behind the ports of a Verilog module (explore/energy/model.py). It also keeps the
// values of chosen clock cycles. One netlist is simulated at a time.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "svdpi.h"

namespace {

// Mirrored by explore/energy/model.py, field by field. Lists of nets follow each other; `..._at` says where each starts.
struct Netlist {
    uint64_t nets, gates, registers, inputs, outputs;
    const uint64_t* tables;      // of each gate, bit i: value for inputs that spell i
    const uint32_t* pins_at;     // [gates + 1] in pins
    const uint32_t* pins;        // inputs of the gates, which are in topological order
    const uint32_t* driven;      // output of each gate
    const uint32_t* fanout_at;   // [nets + 1] in fanout
    const uint32_t* fanout;      // gates that a net goes to
    const uint32_t* data;        // of each register
    const uint32_t* enable;      // likewise
    const uint32_t* state_at;    // [registers + 1] in states
    const uint32_t* states;      // outputs of the registers: 2 * net + 1 for an inverse
    const uint32_t* input_nets;  // bits of the input ports, the clock's left out
    const uint32_t* output_nets;
};

constexpr uint32_t ONE = 1, WORD = 64;

Netlist netlist{};
std::vector<uint8_t> values;    // of the nets
std::vector<uint8_t> state;     // of the registers
std::vector<uint64_t> waiting;  // bit per gate: an input has changed
std::vector<std::pair<uint32_t, uint8_t>> changes;

uint64_t cycle = 0, chunk = 0, chunks = 0, length = 0;  // `chunk`: the one under way or ahead
const uint64_t* begins = nullptr;
uint8_t* row = nullptr;

void set(uint32_t net, uint8_t value) {
    if (values[net] == value) return;
    values[net] = value;
    for (uint32_t i = netlist.fanout_at[net]; i < netlist.fanout_at[net + 1]; ++i) {
        const uint32_t gate = netlist.fanout[i];
        waiting[gate / WORD] |= uint64_t{1} << gate % WORD;
    }
}

void evaluate(uint32_t gate) {
    uint32_t spelt = 0, place = 0;
    for (uint32_t i = netlist.pins_at[gate]; i < netlist.pins_at[gate + 1]; ++i) {
        spelt |= static_cast<uint32_t>(values[netlist.pins[i]]) << place++;
    }
    set(netlist.driven[gate], netlist.tables[gate] >> spelt & 1);
}

void set_state(uint32_t number, uint8_t value) {
    state[number] = value;
    for (uint32_t i = netlist.state_at[number]; i < netlist.state_at[number + 1]; ++i) {
        set(netlist.states[i] >> 1, value ^ (netlist.states[i] & 1));
    }
}

void record() {
    if (chunk == chunks || cycle < begins[chunk]) return;
    if (cycle + 1 == begins[chunk] + length) ++chunk;
    for (uint64_t i = 0; i < netlist.inputs; ++i) *row++ = values[netlist.input_nets[i]];
    std::memcpy(row, state.data(), state.size());
    row += state.size();
}

}  // namespace

// Called by the module whenever an input or the state has changed.
extern "C" void gate_settle(const svBitVecVal* in, svBitVecVal* out) {
    for (uint64_t i = 0; i < netlist.inputs; ++i) set(netlist.input_nets[i], in[i / 32] >> i % 32 & 1);
    for (uint64_t word = 0; word < waiting.size(); ++word) {
        while (waiting[word]) {
            const uint32_t bit = __builtin_ctzll(waiting[word]);
            waiting[word] &= waiting[word] - 1;
            evaluate(static_cast<uint32_t>(word * WORD + bit));
        }
    }
    for (uint64_t i = 0; i < netlist.outputs; ++i) {
        if (i % 32 == 0) out[i / 32] = 0;
        out[i / 32] |= static_cast<uint32_t>(values[netlist.output_nets[i]]) << i % 32;
    }
}

// Called at every rising edge of the clock, before anything else changes.
extern "C" void gate_clock() {
    record();
    ++cycle;
    changes.clear();
    for (uint32_t i = 0; i < netlist.registers; ++i) {
        const uint8_t next = values[netlist.data[i]];
        if (values[netlist.enable[i]] && next != state[i]) changes.emplace_back(i, next);
    }
    for (const auto& [number, value] : changes) set_state(number, value);
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// Takes a netlist, whose arrays must stay; everything is 0 first. For each of `count` chunks the values before `cycles`
// edges from number `starts[i]` on go to `rows`: a byte for each input, then one for each register.
EXPORT void gate_load(const Netlist* loaded, const uint64_t* starts, uint64_t count, uint64_t cycles, uint8_t* rows) {
    netlist = *loaded;
    values.assign(netlist.nets, 0);
    values[ONE] = 1;
    state.assign(netlist.registers, 0);
    waiting.assign((netlist.gates + WORD - 1) / WORD, 0);
    for (uint64_t gate = 0; gate < netlist.gates; ++gate) waiting[gate / WORD] |= uint64_t{1} << gate % WORD;
    for (uint32_t i = 0; i < netlist.registers; ++i) set_state(i, 0);
    cycle = chunk = 0;
    begins = starts;
    chunks = count;
    length = cycles;
    row = rows;
}

// Edges since gate_load.
EXPORT uint64_t gate_cycles() { return cycle; }
